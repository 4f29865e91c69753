"""What goes through the proxy, requests and watches, and what may happen to them."""

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
    """One request of the operator's."""

    method: str
    path: str
    watch: bool
    selector: str = ""
    initial: bool = False  # a watch that begins with a list (KEP-3157)

    @property
    def write(self) -> bool:
        """A write that matters: events are told, not counted."""
        return (
            self.method in WRITES
            and not self.path.rstrip("/").endswith("/events")
            and "/events/" not in self.path
        )

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Fault:
    """An answer in place of the apiserver's; status 0: none, the connection is reset."""

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
    """End the operator at its k-th write from now (1 is the first) of those that `about` is true
    of, before it arrives or after it is done.
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
    """A watch that goes through the proxy; `lines` are put out to the operator as they are."""

    asked: Asked
    request: web.Request
    response: web.StreamResponse
    held: list[bytes] = field(default_factory=list)  # lines that are put out later

    @property
    def open(self) -> bool:
        """The operator still listens; the proxy's own handler notices its end only with the next
        line.
        """
        transport = self.request.transport
        return transport is not None and not transport.is_closing()


def reset(request: web.Request) -> None:
    """Close a connection as a crashed peer does: RST, no goodbye."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
