"""Helpers for a process that serves HTTP: logging, shutdown on signals, and probes.

The operator does not use this module, because its health also depends on kopf and its watches.
"""

import asyncio
import logging
import signal
from collections.abc import Callable

from aiohttp import web

from dijob.process.safe_lines import make_safe


def set_up_log() -> None:
    """Log to stderr, one safe line for each message."""
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")
    make_safe(logging.getLogger())


def watch_signals() -> asyncio.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = asyncio.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)
    return stop


def build_health_app(find_problem: Callable[[], str] = lambda: "") -> web.Application:
    """Return the application for probes.

    The application has a separate port, because its requests need no token. /livez fails while
    `find_problem` returns a problem that a restart can fix. By default, the probes check only
    that the process responds.
    """

    async def live(_: web.Request) -> web.Response:
        problem = find_problem()
        return web.Response(status=503 if problem else 200, text=problem or "ok")

    async def ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.add_routes([web.get("/livez", live), web.get("/readyz", ready)])
    return app
