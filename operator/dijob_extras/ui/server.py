"""The HTTP server of the page: static files for everyone, and data for the holder of the token.

The server in a cluster has the same routes, but a separate source for each user
(cluster/server.py).

The page is plain JavaScript without a build step, so its files are served as they are.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web
from aiohttp.typedefs import Handler
from dijob.client import DijobError

from dijob_extras.ui.guard import add_security_headers, build_middleware
from dijob_extras.ui.sse import Messages, send_messages

_FOLDER: Final = Path(__file__).with_name("page")
_TYPES: Final = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
START: Final = "index.html"
# The valid names of jobs and namespaces. No other text may become part of an API path.
NAME: Final = "[a-z0-9][-a-z0-9]*"


class PageSource(Protocol):
    """The data of the page."""

    def jobs(self) -> Messages:
        """Yield the list of jobs after each change."""

    def totals(self) -> Messages:
        """Yield the GPU hours and the goodput of each namespace."""

    def job(self, namespace: str, name: str) -> Messages:
        """Yield one job after each change."""

    def log(self, namespace: str, name: str, rank: int | None) -> Messages:
        """Yield the log of a rank, or of all ranks (None)."""

    def text(self, namespace: str, name: str, rank: int | None) -> AsyncGenerator[str]:
        """Yield the complete log of a rank, or of all ranks (None), for a download."""

    def past(self) -> Messages:
        """Yield the jobs of the history."""

    def record(self, namespace: str, name: str, uid: str) -> Messages:
        """Yield one job of the history."""


class RunningSource(PageSource, Protocol):
    """A source that follows the cluster while the server runs. Tests replace it."""

    async def run(self) -> None:
        """Follow the cluster until the task is canceled."""


# A function that returns the source for a request.
OpenSource = Callable[[web.Request], AbstractAsyncContextManager[PageSource]]


def build_application(source: RunningSource, token: str) -> web.Application:
    """Return the server. It serves a single user, who authenticates with `token`."""
    app = web.Application(middlewares=[build_middleware(token)])
    app.on_response_prepare.append(add_security_headers)
    app.cleanup_ctx.append(_run_source(source))
    add_files(app)
    add_data_routes(app, lambda request: nullcontext(source))
    return app


def add_files(app: web.Application, auth: str = "key") -> None:
    """Add the files of the page. `auth` tells the page how its user authenticates."""
    # One route per file: no path from a request is ever opened.
    for file in sorted(_FOLDER.iterdir()):
        path, content = f"/{file.name}", file.read_bytes()
        if file.name == START:
            path, content = "/", content.replace(b"<body>", f'<body data-auth="{auth}">'.encode())
        # By default, aiohttp would also respond to HEAD, which `guard` rejects.
        handler = _file_handler(content, _TYPES[file.suffix])
        app.router.add_get(path, handler, allow_head=False)


def add_data_routes(app: web.Application, open_source: OpenSource) -> None:
    """Add the routes of the data."""
    record = f"{{namespace:{NAME}}}/{{name:{NAME}}}/{{uid:{NAME}}}"
    job = f"/api/jobs/{{namespace:{NAME}}}/{{name:{NAME}}}"
    for path, handler in (
        ("/api/jobs", jobs_handler(open_source)),
        ("/api/totals", _totals_handler(open_source)),
        ("/api/history", _past_handler(open_source)),
        (f"/api/history/{record}", _past_handler(open_source)),
        (job, _job_handler(open_source)),
        (f"{job}/log", _log_handler(open_source)),
        (rf"{job}/log/{{rank:\d{{1,4}}}}", _log_handler(open_source)),
        (f"{job}/text", _text_handler(open_source)),
        (rf"{job}/text/{{rank:\d{{1,4}}}}", _text_handler(open_source)),
    ):
        app.router.add_get(path, handler, allow_head=False)


def _run_source(source: RunningSource) -> Callable[[web.Application], AsyncGenerator[None]]:
    async def running(app: web.Application) -> AsyncGenerator[None]:
        work = asyncio.ensure_future(source.run())
        yield
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    return running


def _file_handler(content: bytes, kind: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=content, content_type=kind, charset="utf-8")

    return answer


def jobs_handler(open_source: OpenSource) -> Handler:
    """Return the handler of the list of jobs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        async with open_source(request) as source:
            return await send_messages(request, source.jobs())

    return answer


def _totals_handler(open_source: OpenSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        async with open_source(request) as source:
            return await send_messages(request, source.totals())

    return answer


def _job_handler(open_source: OpenSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = request.match_info
        async with open_source(request) as source:
            return await send_messages(request, source.job(found["namespace"], found["name"]))

    return answer


def _past_handler(open_source: OpenSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = request.match_info
        async with open_source(request) as source:
            if "uid" not in found:
                return await send_messages(request, source.past())
            messages = source.record(found["namespace"], found["name"], found["uid"])
            return await send_messages(request, messages)

    return answer


def _log_handler(open_source: OpenSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        async with open_source(request) as source:
            return await send_messages(request, source.log(*_find_log(request)))

    return answer


def _text_handler(open_source: OpenSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        async with (
            open_source(request) as source,
            aclosing(source.text(*_find_log(request))) as pieces,
        ):
            try:
                first = await anext(pieces, "")
            except DijobError as error:
                return web.Response(status=502, text=str(error))
            await response.prepare(request)
            await response.write(first.encode())
            async for piece in pieces:
                await response.write(piece.encode())
        return response

    return answer


def _find_log(request: web.Request) -> tuple[str, str, int | None]:
    found = request.match_info
    rank = int(found["rank"]) if "rank" in found else None
    return found["namespace"], found["name"], rank
