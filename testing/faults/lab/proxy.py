"""A reverse proxy between operator and apiserver: it counts writes, kills the operator at the k-th
write, and injects faults.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from faults.lab.exchange import Asked, Fault, Kill, Watch, reset
from faults.lab.kube import Access, Session

# Hop-by-hop headers, which the proxy's own connections set.
HOP = (
    "host",
    "transfer-encoding",
    "content-length",
    "connection",
    "authorization",
    "accept-encoding",
)


class Proxy:
    """Plain HTTP on the loopback interface towards the operator, TLS with the administrator's token
    towards the apiserver.

    Tests set functions that inject faults. `answer` may return a fault for a request. `delay`
    returns the number of seconds that the request has to wait in the proxy. `change` may return
    another body for a response that is not a watch. `hide` may drop a watch event, and `retell` may
    replace it with others. While `through` is cleared, requests and events wait in the proxy, as in
    an interrupted network; `stall` drops them.
    """

    def __init__(self, access: Access, folder: Path) -> None:
        self.kubeconfig = folder / "proxy.kubeconfig"
        self.writes: list[Asked] = []
        self.requests: list[Asked] = []
        self.faults = 0
        self.hidden = 0
        self.answer: Callable[[Asked], Fault | None] = lambda asked: None
        self.hide: Callable[[Asked, dict[str, Any]], bool] = lambda asked, event: False
        self.delay: Callable[[Asked], float] = lambda asked: 0.0
        self.change: Callable[[Asked, bytes], bytes] = lambda asked, body: body
        self.retell: Callable[[Watch, bytes], list[bytes]] = lambda watch, line: [line]
        self.through = asyncio.Event()
        self.through.set()
        self._access = access
        self._kill: Kill | None = None
        self._watches: list[Watch] = []
        self._serving: set[asyncio.Task[Any]] = set()
        self._connections: WeakSet[asyncio.Transport] = WeakSet()
        self._stalled: WeakSet[asyncio.Transport] = WeakSet()

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
        # aiohttp forgets handlers whose client has disconnected.
        for task in (serving := list(self._serving)):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self._runner.cleanup()
        await self._session.close()

    def kill_at(self, kill: Kill) -> None:
        """Arm the kill. After the kill, no requests of the old operator reach the apiserver until
        `revive`.
        """
        self._kill = kill

    def revive(self) -> None:
        """Let a new operator's requests through."""
        self._kill = None

    def watches(self, part: str = "") -> int:
        """Return the number of open watches on paths that contain `part`."""
        return len(self._open(part))

    def cut_watches(self, part: str = "") -> int:
        """Reset (RST) the open watches on paths that contain `part`. Return their number."""
        chosen = self._open(part)
        for watch in chosen:
            reset(watch.request)
        return len(chosen)

    def stall(self) -> None:
        """Drop everything on the existing connections from now on. The connections stay open, and
        new connections work.
        """
        self._stalled |= self._connections

    def _silent(self, request: web.Request) -> bool:
        return request.transport in self._stalled

    async def tell_watches(self, event: dict[str, Any], part: str = "") -> int:
        """Send an event to the open watches on paths that contain `part`. Return their number."""
        chosen = self._open(part)
        for watch in chosen:
            await watch.response.write(json.dumps(event).encode() + b"\n")
        return len(chosen)

    def _open(self, part: str) -> list[Watch]:
        return [watch for watch in self._watches if watch.open and part in watch.asked.path]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            return await self._answer(request)
        finally:
            self._serving.discard(task)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        asked = Asked(
            request.method,
            request.path,
            "watch" in query,
            query.get("labelSelector", ""),
            "sendInitialEvents" in query,
        )
        body = await request.read()
        if request.transport is not None:
            self._connections.add(request.transport)
        if self._silent(request):
            await asyncio.Event().wait()  # until the client gives up, or the proxy ends
        self.requests.append(asked)
        await self.through.wait()
        await asyncio.sleep(self.delay(asked))
        kill, number = self._kill, 0
        if kill is not None and asked.write and (kill.seen >= kill.k or kill.about(asked)):
            kill.seen += 1
            number = kill.seen
            if number > kill.k or (number == kill.k and not kill.after):
                return await self._die(request, kill, asked if number == kill.k else None)
        if fault := self.answer(asked):
            self.faults += 1
            if not fault.status:
                reset(request)
                return web.Response(status=503)
            return fault.response()
        # `answer` may have cut the operator off. In that case, this request must not arrive either.
        await self.through.wait()
        if asked.write:
            self.writes.append(asked)
        if asked.watch:
            return await self._stream(request, asked)
        answer = await self._forward(request, asked, body)
        if kill is not None and number == kill.k:
            return await self._die(request, kill, asked)
        return answer

    async def _die(
        self, request: web.Request, kill: Kill, asked: Asked | None
    ) -> web.StreamResponse:
        """Kill the operator at this request, which never gets a response. Later requests (`asked`
        is None) wait until the operator has been killed.
        """
        if asked is not None:
            kill.write = asked
            kill.end()
            kill.done.set()
        await kill.done.wait()
        reset(request)
        return web.Response(status=503)

    async def _forward(self, request: web.Request, asked: Asked, body: bytes) -> web.Response:
        async with self._session.http.request(
            request.method, self._url(request), data=body or None, headers=self._headers(request)
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            changed = self.change(asked, await answer.read())
            return web.Response(status=answer.status, body=changed, headers=kept)

    async def _stream(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        async with self._session.http.get(
            self._url(request), headers=self._headers(request)
        ) as answer:
            kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            response.enable_chunked_encoding()
            watch = Watch(asked, request, response)
            # Otherwise the operator has ended, or its connection was cut on purpose.
            with suppress(ConnectionError, aiohttp.ClientError):
                await response.prepare(request)
                self._watches.append(watch)
                try:
                    await self._pump(watch, answer)
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
                    continue
                for told in self.retell(watch, line):
                    if not self._silent(watch.request):
                        await watch.response.write(told + b"\n")
        if self._silent(watch.request):
            await asyncio.Event().wait()
        with suppress(ConnectionError):
            await watch.response.write_eof(pending)

    def _url(self, request: web.Request) -> URL:
        return URL(f"{self._access.server}{request.raw_path}", encoded=True)

    def _headers(self, request: web.Request) -> dict[str, str]:
        kept = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        # The proxy reads events, so it requests them uncompressed: since 1.37, the apiserver would
        # otherwise compress them.
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
