"""The command line: `python -m dijob`."""

import asyncio
import logging
import os

import click
import kopf

from dijob import __version__
from dijob.core.manifests import Options
from dijob.main import Settings, run


@click.command(context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "DIJOB"})
@click.option("--namespace", "namespaces", multiple=True, help="Serve this namespace only (repeatable). Default: all.")
@click.option("--gate-image", default="", help="Image of the gate, for users' images that have no sh.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning"]), default="info", show_default=True, help="Verbosity."
)
@click.option("--health-port", default=8080, show_default=True, help="Port of /livez, /readyz and /metrics (0: none).")
@click.option("--kubeconfig", type=click.Path(exists=True), help="For runs outside a cluster.")
@click.version_option(__version__)
def main(
    namespaces: tuple[str, ...], gate_image: str, log_level: str, health_port: int, kubeconfig: str | None
) -> None:
    """Run the DIJob operator: one DIJob becomes N pods that form one DI-engine world."""
    kopf.configure(verbose=log_level == "debug", quiet=log_level == "warning", log_format=kopf.LogFormat.FULL)
    # One line per job and event says more than kopf's line per watch event does.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    if kubeconfig:
        os.environ["KUBECONFIG"] = kubeconfig  # kopf finds it there
    asyncio.run(run(Settings(namespaces, kubeconfig, health_port, Options(gate_image))))


if __name__ == "__main__":
    main()
