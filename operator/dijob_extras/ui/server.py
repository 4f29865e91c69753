"""The HTTP server of the page: static files for everyone, and data for the holder of the token.

The page is plain JavaScript without a build step, so its files are served as they are.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
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
# The valid names of jobs and namespaces. Nothing else may become part of an API path.
_NAME: Final = "[a-z0-9][-a-z0-9]*"


class PageSource(Protocol):
    """The data of the page. Tests replace it."""

    async def run(self) -> None:
        """Follow the cluster until the task is canceled."""

    def jobs(self) -> Messages:
        """Yield the list of jobs after each change."""

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


def build_application(source: PageSource, token: str) -> web.Application:
    """Return the server. It serves a single user, who authenticates with `token`."""
    app = web.Application(middlewares=[build_middleware(token)])
    app.on_response_prepare.append(add_security_headers)
    app.cleanup_ctx.append(_run_source(source))
    # One route per file: no path from a request is ever opened.
    for file in sorted(_FOLDER.iterdir()):
        path = "/" if file.name == START else f"/{file.name}"
        # By default, aiohttp would also respond to HEAD, which `guard` rejects.
        app.router.add_get(
            path, _file_handler(file.read_bytes(), _TYPES[file.suffix]), allow_head=False
        )
    record = f"{{namespace:{_NAME}}}/{{name:{_NAME}}}/{{uid:{_NAME}}}"
    job = f"/api/jobs/{{namespace:{_NAME}}}/{{name:{_NAME}}}"
    for path, handler in (
        ("/api/jobs", _jobs_handler(source)),
        ("/api/history", _past_handler(source)),
        (f"/api/history/{record}", _past_handler(source)),
        (job, _job_handler(source)),
        (f"{job}/log", _log_handler(source)),
        (f"{job}/log/{{rank:\\d{{1,4}}}}", _log_handler(source)),
        (f"{job}/text", _text_handler(source)),
        (f"{job}/text/{{rank:\\d{{1,4}}}}", _text_handler(source)),
    ):
        app.router.add_get(path, handler, allow_head=False)
    return app


def _run_source(source: PageSource) -> Callable[[web.Application], AsyncGenerator[None]]:
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


def _jobs_handler(source: PageSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await send_messages(request, source.jobs())

    return answer


def _job_handler(source: PageSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = request.match_info
        return await send_messages(request, source.job(found["namespace"], found["name"]))

    return answer


def _past_handler(source: PageSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        found = request.match_info
        if "uid" not in found:
            return await send_messages(request, source.past())
        messages = source.record(found["namespace"], found["name"], found["uid"])
        return await send_messages(request, messages)

    return answer


def _log_handler(source: PageSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await send_messages(request, source.log(*_find_log(request)))

    return answer


def _text_handler(source: PageSource) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        async with aclosing(source.text(*_find_log(request))) as pieces:
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
