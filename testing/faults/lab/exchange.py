"""The requests and watches that go through the proxy, and their faults."""

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiohttp import web

WRITES = ("POST", "PATCH", "PUT", "DELETE")


@dataclass(frozen=True)
class Asked:
    """One request of the operator."""

    method: str
    path: str
    watch: bool
    selector: str = ""
    initial: bool = False  # a streaming list (KEP-3157)

    @property
    def write(self) -> bool:
        """Whether the request writes state; events do not count."""
        return (
            self.method in WRITES
            and not self.path.rstrip("/").endswith("/events")
            and "/events/" not in self.path
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Fault:
    """A response in place of the apiserver's. With status 0, the connection is reset."""

    status: int
    retry_after: int | None = None
    reason: str = "Injected"

    def response(self) -> web.Response:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.status}
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        told = {**body, "reason": self.reason, "message": f"{self.reason} by the test"}
        return web.json_response(told, status=self.status, headers=headers)


@dataclass
class Kill:
    """Kill the operator at its k-th write for which `about` is true; k is counted from 1. If
    `after` is false, the operator is killed before the write arrives at the apiserver. If `after`
    is true, it is killed when the apiserver has executed the write.
    """

    k: int
    after: bool
    end: Callable[[], None]
    about: Callable[[Asked], bool] = lambda asked: True
    seen: int = 0
    write: Asked | None = None
    done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Watch:
    """A watch that goes through the proxy. `lines` are sent to the operator unchanged."""

    asked: Asked
    request: web.Request
    response: web.StreamResponse
    held: list[bytes] = field(default_factory=list)  # lines that are sent later

    @property
    def open(self) -> bool:
        """Whether the operator is still reading. The proxy's handler does not notice the end of a
        connection until it sends the next line.
        """
        transport = self.request.transport
        return transport is not None and not transport.is_closing()


def reset(request: web.Request) -> None:
    """Reset a connection (RST), as a crashed peer does."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
