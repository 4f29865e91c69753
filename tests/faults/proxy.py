"""A reverse proxy between the operator and the apiserver: it counts writes, kills at the k-th, and
makes faults.
"""

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml
from aiohttp import web
from faults.kube import Access, Session
from yarl import URL

WRITES = ("POST", "PATCH", "PUT", "DELETE")
# What the proxy's own connections say for themselves, hop by hop.
HOP = (
    "host",
    "transfer-encoding",
    "content-length",
    "connection",
    "authorization",
    "accept-encoding",
)


@dataclass(frozen=True)
class Asked:
    """One request of the operator's."""

    method: str
    path: str
    watch: bool
    selector: str = ""

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
    """An answer in place of the apiserver's."""

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

    @property
    def open(self) -> bool:
        """The operator still listens; the proxy's own handler notices its end only with the next
        line.
        """
        transport = self.request.transport
        return transport is not None and not transport.is_closing()


class Proxy:
    """Plain HTTP on loopback towards the operator, TLS and the administrator's token towards the
    apiserver.

    `answer` may give a fault for a request, `hide` may swallow a watch event. Both are functions
    that a test sets. While `through` is cleared, requests and events stay here, and go on later, as
    they do in a network that is cut.
    """

    def __init__(self, access: Access, folder: Path) -> None:
        self.kubeconfig = folder / "proxy.kubeconfig"
        self.writes: list[Asked] = []
        self.requests: list[Asked] = []
        self.faults = 0
        self.hidden = 0
        self.answer: Callable[[Asked], Fault | None] = lambda asked: None
        self.hide: Callable[[Asked, dict[str, Any]], bool] = lambda asked, event: False
        self.through = asyncio.Event()
        self.through.set()
        self._access = access
        self._kill: Kill | None = None
        self._watches: list[Watch] = []

    async def __aenter__(self) -> Self:
        self._session = Session(
            self._access, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        server = site._server
        assert isinstance(server, asyncio.Server)
        self._write_kubeconfig(server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut_watches()
        await self._runner.cleanup()
        await self._session.close()

    def kill_at(self, kill: Kill) -> None:
        """Arm. From the kill on, nothing more of the old operator reaches the apiserver until
        `revive`.
        """
        self._kill = kill

    def revive(self) -> None:
        """A new operator may write again."""
        self._kill = None

    def watches(self, part: str = "") -> int:
        """How many watches are open on paths that contain `part`."""
        return len(self._open(part))

    def cut_watches(self, part: str = "") -> int:
        """Reset (RST) the connections of the open watches whose path contains `part`; how many."""
        chosen = self._open(part)
        for watch in chosen:
            _reset(watch.request)
        return len(chosen)

    async def tell_watches(self, event: dict[str, Any], part: str = "") -> int:
        """Send an event of our own down the open watches whose path contains `part`; how many."""
        chosen = self._open(part)
        for watch in chosen:
            await watch.response.write(json.dumps(event).encode() + b"\n")
        return len(chosen)

    def _open(self, part: str) -> list[Watch]:
        return [watch for watch in self._watches if watch.open and part in watch.asked.path]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        asked = Asked(
            request.method, request.path, "watch" in query, query.get("labelSelector", "")
        )
        self.requests.append(asked)
        body = await request.read()
        await self.through.wait()
        kill, number = self._kill, 0
        if kill is not None and asked.write and (kill.seen >= kill.k or kill.about(asked)):
            kill.seen += 1
            number = kill.seen
            if number > kill.k or (number == kill.k and not kill.after):
                return await self._die(request, kill, asked if number == kill.k else None)
        if fault := self.answer(asked):
            self.faults += 1
            return fault.response()
        if asked.write:
            self.writes.append(asked)
        if asked.watch:
            return await self._stream(request, asked)
        answer = await self._forward(request, body)
        if kill is not None and number == kill.k:
            return await self._die(request, kill, asked)
        return answer

    async def _die(
        self, request: web.Request, kill: Kill, asked: Asked | None
    ) -> web.StreamResponse:
        """The operator ends at this request, which never gets an answer; later ones (None) wait for
        the same end.
        """
        if asked is not None:
            kill.write = asked
            kill.end()
            kill.done.set()
        await kill.done.wait()
        _reset(request)
        return web.Response(status=503)

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        async with self._session.http.request(
            request.method, self._url(request), data=body or None, headers=self._headers(request)
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            return web.Response(status=answer.status, body=await answer.read(), headers=kept)

    async def _stream(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        async with self._session.http.get(
            self._url(request), headers=self._headers(request)
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            response.enable_chunked_encoding()
            await response.prepare(request)
            watch = Watch(asked, request, response)
            self._watches.append(watch)
            try:
                await self._pump(watch, answer)
            except (ConnectionError, aiohttp.ClientError):
                pass  # the operator has gone, or its connection was cut on purpose
            finally:
                self._watches.remove(watch)
            return response

    async def _pump(self, watch: Watch, answer: aiohttp.ClientResponse) -> None:
        pending = b""
        async for chunk in answer.content.iter_any():
            await self.through.wait()
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if self.hide(watch.asked, json.loads(line)):
                    self.hidden += 1
                else:
                    await watch.response.write(line + b"\n")
        with suppress(ConnectionError):
            await watch.response.write_eof(pending)

    def _url(self, request: web.Request) -> URL:
        return URL(f"{self._access.server}{request.raw_path}", encoded=True)

    def _headers(self, request: web.Request) -> dict[str, str]:
        kept = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        # Events are read on their way: from 1.37 on the apiserver compresses watches if it may.
        plain = {"Accept-Encoding": "identity"}
        return {**kept, **plain, "Authorization": f"Bearer {self._access.token}"}

    def _write_kubeconfig(self, port: int) -> None:
        cluster = {"server": f"http://127.0.0.1:{port}"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": cluster}],
            "users": [{"name": "operator", "user": {"token": "the-proxy-has-it"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "operator"}}],
            "current-context": "proxy",
        }
        self.kubeconfig.write_text(yaml.safe_dump(config))


def _reset(request: web.Request) -> None:
    """Close a connection as a crashed peer does: RST, no goodbye."""
    transport = request.transport
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


def table(rows: Iterable[tuple[object, ...]]) -> str:
    """Rows in columns, for evidence."""
    words = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in words) for i in range(len(words[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in words
    )
