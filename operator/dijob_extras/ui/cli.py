"""`kubectl dijob ui`: starts the local page, which is implemented in dijob_extras.ui."""

from typing import TYPE_CHECKING

import click
from dijob.cli import options
from dijob.cli.calling import Where, call_client

if TYPE_CHECKING:
    from dijob.client import AsyncClient


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the jobs of all namespaces.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1. Default: a free port."
)
@click.option("--no-browser", is_flag=True, help="Print the URL without opening a browser.")
@click.option(
    "--measure",
    is_flag=True,
    help="While the page of a job is open, also measure GPU use in its pods. If the cluster has no"
    " metrics API, also measure CPU and memory. Needs permission to create pods/exec.",
)
@options.cluster_options
def command(
    where: Where, all_namespaces: bool, port: int | None, no_browser: bool, measure: bool
) -> None:
    """Open a live page in the browser: jobs, ranks, connections, progress and logs.

    This command serves the page on 127.0.0.1 with your kubeconfig and permissions, and changes
    nothing. The URL contains a key that is valid until the command exits.

    \b
    Example:
      kubectl dijob ui
      kubectl dijob ui -A --port 8123 --no-browser
    """

    async def act(client: "AsyncClient") -> None:
        # Port 0 lets the kernel choose, so that two pages can run at the same time.
        from dijob_extras.ui.serving import Wish, serve_page

        await serve_page(client, Wish(all_namespaces, port or 0, not no_browser, measure))

    call_client(where, act)
