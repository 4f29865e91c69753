"""The command line of the HTTP server: `python -m dijob.server`."""

import asyncio
import logging
import socket
from contextlib import AsyncExitStack
from typing import Final

import click

from dijob import __version__
from dijob.kube.api import Api
from dijob.kube.connection import CredentialsError
from dijob.process.bounded_http import Bounds, serve_app
from dijob.process.metrics_page import add_metrics
from dijob.process.service import build_health_app, set_up_log, watch_signals
from dijob.server.app import Server, invalid_http_response
from dijob.server.callers import Callers
from dijob.server.metrics import REGISTRY
from dijob.server.reports import Manner, Reports
from dijob.server.sizes import Sizes

log = logging.getLogger("dijob.server")

# These limits are generous: all ranks of a large job may connect at the same time, and many people
# may share the address of a proxy.
BOUNDS: Final = Bounds(in_total=2048, of_one_address=64, idle_seconds=60.0)


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DIJOB_SERVER"}
)
@click.option("--port", default=8080, show_default=True, help="Port of the API.")
@click.option(
    "--health-port",
    default=8081,
    show_default=True,
    help="Port of /livez, /readyz and /metrics (0: they are not served). Requests to this port need"
    " no token.",
)
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Number of replicas of this server. They share the limit on status writes.",
)
@click.option(
    "--job-metrics/--no-job-metrics",
    default=False,
    show_default=True,
    help="Serve the reported progress of each job as a metric.",
)
@click.option(
    "--kubeconfig", type=click.Path(exists=True), help="Kubeconfig file for use outside a cluster."
)
@click.version_option(__version__)
def main(
    port: int, health_port: int, replicas: int, job_metrics: bool, kubeconfig: str | None
) -> None:
    """Serve the API with which running jobs change their size and report their progress."""
    set_up_log()
    try:
        asyncio.run(run_server(port, health_port, Manner(replicas, job_metrics), kubeconfig))
    except CredentialsError as error:
        log.critical("%s", error)
        raise SystemExit(1) from error


async def run_server(port: int, health_port: int, manner: Manner, kubeconfig: str | None) -> None:
    """Serve requests until SIGTERM or SIGINT.

    If `port` is 0, the API is disabled. If `health_port` is 0, probes and metrics are disabled.
    """
    stop = watch_signals()
    api = await Api.connect(kubeconfig, f"server {socket.gethostname()}")
    sizes = Sizes(api)
    reports = Reports(api, sizes, manner, api.clock)
    app = Server(Callers(api), sizes, reports).app()
    try:
        # If the task that writes the reports fails, the task group stops the process as well.
        # Otherwise the server would look healthy while it accepts reports and writes none of them.
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            writes = group.create_task(reports.run())
            if port:
                await stack.enter_async_context(
                    serve_app(app, port, BOUNDS, error=invalid_http_response)
                )
            if health_port:
                await stack.enter_async_context(
                    serve_app(add_metrics(build_health_app(), REGISTRY), health_port)
                )
            log.info("serving on port %d", port)
            await stop.wait()
            writes.cancel()
    finally:
        await api.close()


if __name__ == "__main__":
    main()
