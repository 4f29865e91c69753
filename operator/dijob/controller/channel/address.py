"""Resolves the channel's address, which the operator writes into each new pod."""

import asyncio
import logging
import socket

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0


async def resolve_address(given: str) -> str:
    """Return "HOST:PORT" with the host's IP address instead of its name, if the name resolves.

    The Service of the channel has a constant address. So no launcher needs the cluster's DNS, which
    some pods might not use.
    """
    host, _, port = given.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            found = await loop.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        log.warning("cannot resolve %s, so each launcher resolves it itself: %r", host, error)
        return given
    address = str(found[0][4][0])
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
