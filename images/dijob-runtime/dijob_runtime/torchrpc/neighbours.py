"""Discovers peers through connections that stay open as long as both processes live.

It uses only the standard library, so that it can be tested without torch.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import socket
import struct
import threading
from dataclasses import asdict, dataclass
from typing import Any, Callable

# A connection without a handshake (a port scanner, a probe) is closed after this time.
HELLO_SECONDS = 10.0
# The pause between attempts to connect.
PAUSE_SECONDS = 0.5
SAY_EVERY_SECONDS = 30.0
# A peer whose node is cut off does not close its connection. It counts as lost after 10 s without
# data and three unanswered keepalive probes, 5 s apart.
KEEPALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
# The ioctl for an interface's IPv4 address (linux/sockios.h).
SIOCGIFADDR = 0x8915
# The maximum length of a handshake, in bytes. A card is much shorter.
LIMIT = 4096


@dataclass(frozen=True)
class Card:
    """The data that a process sends in the handshake: its node ID in DI-engine, the address of its
    RPC agent, its `life`, the number of its GPUs, and the GPUs on which it accepts tensors.

    `life` is random. It distinguishes a process from an earlier process with the same node ID.
    """

    node: int
    url: str
    life: str
    gpus: int = 0
    takes: tuple[int, ...] = ()


class Neighbours:
    """Listens, connects, and calls `joined` and `left` with the card of each peer.

    It runs in a thread with its own event loop, because DI-engine's queue is synchronous.
    """

    def __init__(
        self,
        card: Card,
        joined: Callable[[Card], None],
        left: Callable[[Card], None],
        say: Callable[[str], None],
    ) -> None:
        self._card = card
        self._joined = joined
        self._left = left
        self._say = say
        self._links: dict[str, int] = {}
        self._reported: set[str] = set()
        self._servers: list[asyncio.AbstractServer] = []
        self._kept: set[Any] = set()  # asyncio keeps only weak references to tasks
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="torchrpc_neighbours", daemon=True
        )

    def start(self, listen: str, dial: list[str]) -> None:
        """Listen on tcp://HOST:PORT, and keep connecting to the addresses in `dial`. Raises OSError
        if it cannot listen.
        """
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._begin(listen, dial), self._loop).result()

    def stop(self) -> None:
        """Close all connections, so that the peers notice at once that this process has left."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(5)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
            self._loop.close()

    async def _begin(self, listen: str, dial: list[str]) -> None:
        self._servers.append(
            await asyncio.start_server(self._talk, *split_address(listen), limit=LIMIT)
        )
        self._kept.update(
            self._loop.create_task(self._dial(*split_address(address))) for address in dial
        )

    async def _dial(self, host: str, port: int) -> None:
        clock, said = self._loop.time, self._loop.time()
        while True:
            try:
                # _talk removes its own task from `_kept`. The task of _dial must stay in `_kept`,
                # so _talk gets a separate task, as it does for an accepted connection.
                await self._loop.create_task(
                    self._talk(*await asyncio.open_connection(host, port, limit=LIMIT))
                )
                said = clock()
            except OSError as error:
                if clock() - said > SAY_EVERY_SECONDS:
                    said = clock()
                    self._say(f"no answer from {host}:{port} yet: {error.strerror or error}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Exchange cards with a peer, and wait until the connection is closed."""
        this = asyncio.current_task()
        self._kept.add(this)
        try:
            _keep_alive(writer.get_extra_info("socket"))
            writer.write(json.dumps(asdict(self._card)).encode() + b"\n")
            card = _parse_card(await asyncio.wait_for(reader.readline(), HELLO_SECONDS))
            if card is not None:
                await self._while_it_lasts(card, reader)
        except (OSError, ValueError, asyncio.TimeoutError):
            pass  # not a peer, or it disconnected during the handshake
        finally:
            self._kept.discard(this)
            writer.close()

    async def _while_it_lasts(self, card: Card, reader: asyncio.StreamReader) -> None:
        """Report that a peer has joined. When the last connection to the peer is closed, report
        that it has left. Two processes that connect to each other have two connections, but each
        process reports the other only once.
        """
        links = self._links.get(card.life, 0)
        if not links and not self._join(card):
            return  # the connecting process retries
        self._links[card.life] = links + 1
        try:
            await reader.read(1)
        except OSError:
            pass
        finally:
            self._links[card.life] -= 1
            if not self._links[card.life]:
                del self._links[card.life]
                self._left(card)

    def _join(self, card: Card) -> bool:
        try:
            self._joined(card)
        except Exception as error:  # torch's or the queue's
            if card.life not in self._reported:
                self._reported.add(card.life)
                self._say(f"node {card.node} cannot join, retrying: {error}")
            return False
        return True

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _parse_card(line: bytes) -> Card | None:
    """Return the card in a line, or None if the JSON is not a card. Raises ValueError if the line
    is not JSON.
    """
    given = json.loads(line)
    try:
        node, url, life, gpus = (given[name] for name in ("node", "url", "life", "gpus"))
        takes = given.get("takes", range(int(gpus)))
        return Card(int(node), str(url), str(life), int(gpus), tuple(map(int, takes)))
    except (KeyError, TypeError):
        return None


def split_address(address: str) -> tuple[str, int]:
    """Return the host and port of tcp://HOST:PORT. The brackets of an IPv6 address are removed."""
    host, _, port = address.split("://", 1)[-1].rpartition(":")
    return host.strip("[]"), int(port)


def interface_of(host: str) -> str:
    """Return the name of the network interface with this IPv4 address, or "" if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(asker, SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # the interface has no IPv4 address
            if socket.inet_ntoa(found[20:24]) == host:
                return name
    return ""


def _keep_alive(link: socket.socket) -> None:
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE:
        if hasattr(socket, name):  # systems other than Linux lack some
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
