"""The command line: `python -m dijob.server`."""

import asyncio
import logging
import signal
import socket
from typing import Final

import click
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from dijob import __version__
from dijob.server.app import Server
from dijob.server.callers import Callers
from dijob.server.metrics import REGISTRY
from dijob.server.reports import Manner, Reports
from dijob.server.sizes import Sizes
from dijob.shell.api import Api
from dijob.shell.connection import CredentialsError
from dijob.shell.safe_lines import make_safe

log = logging.getLogger("dijob.server")

# A connection that has sent no whole request for so long is closed.
IDLE_SECONDS: Final = 60.0


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DIJOB_SERVER"}
)
@click.option("--port", default=8080, show_default=True, help="Port of the API.")
@click.option(
    "--health-port",
    default=8081,
    show_default=True,
    help="Port of /livez, /readyz and /metrics, which ask nobody for a token (0: none).",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many of these serve together: they share what may be written.",
)
@click.option(
    "--job-metrics/--no-job-metrics",
    default=False,
    show_default=True,
    help="A metric for each job with what it reports.",
)
@click.option("--kubeconfig", type=click.Path(exists=True), help="For runs outside a cluster.")
@click.version_option(__version__)
def main(
    port: int, health_port: int, replicas: int, job_metrics: bool, kubeconfig: str | None
) -> None:
    """Serve the API by which running jobs change their own size and report."""
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")
    make_safe(logging.getLogger())
    try:
        asyncio.run(serve(port, health_port, Manner(replicas, job_metrics), kubeconfig))
    except CredentialsError as error:
        log.critical("%s", error)
        raise SystemExit(1) from error


async def serve(port: int, health_port: int, manner: Manner, kubeconfig: str | None) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for which in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(which, stop.set)
    api = await Api.connect(kubeconfig, f"server {socket.gethostname()}")
    sizes = Sizes(api)
    reports = Reports(api, sizes, manner, api.clock)
    apps = [(Server(Callers(api), sizes, reports).app(), port), (health(), health_port)]
    runners = [
        (web.AppRunner(app, access_log=None, keepalive_timeout=IDLE_SECONDS), at)
        for app, at in apps
        if at
    ]
    writes = asyncio.create_task(reports.run())
    try:
        for runner, at in runners:
            await runner.setup()
            await web.TCPSite(runner, port=at).start()
        log.info("serves on port %d", port)
        await stop.wait()
    finally:
        for runner, _ in runners:
            await runner.cleanup()
        writes.cancel()
        await api.close()


def health() -> web.Application:
    """What probes and Prometheus ask."""

    async def well(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def figures(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    app.add_routes(
        [web.get("/livez", well), web.get("/readyz", well), web.get("/metrics", figures)]
    )
    return app


if __name__ == "__main__":
    main()
