"""Probes and metrics of the history, on a port that needs no token."""

from collections.abc import Callable
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dijob.history.metrics import REGISTRY

# The API server sends a bookmark at least once a minute, and a watch is abandoned after 70 s. A
# process whose watches are silent for longer than this is restarted.
SILENT_SECONDS: Final = 300.0


def health_app(silence: Callable[[], float]) -> web.Application:
    """Return the application for probes and Prometheus. `silence` returns the seconds since the
    last event of the watches.
    """

    async def live(_: web.Request) -> web.Response:
        silent = silence()
        if silent > SILENT_SECONDS:
            return web.Response(status=503, text=f"no event of the API server for {silent:.0f} s")
        return web.Response(text="ok")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def figures(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.add_routes(
        [web.get("/livez", live), web.get("/readyz", ready), web.get("/metrics", figures)]
    )
    return app
