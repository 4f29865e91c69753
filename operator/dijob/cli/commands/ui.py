"""`kubectl dijob ui`."""

from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call

if TYPE_CHECKING:
    from dijob.client import AsyncClient


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="The jobs of all namespaces.")
@click.option("--port", type=click.IntRange(1, 65535), help="On 127.0.0.1. Absent: a free one.")
@click.option("--no-browser", is_flag=True, help="Print the address alone.")
@options.cluster
def command(where: Where, all_namespaces: bool, port: int | None, no_browser: bool) -> None:
    """A live page in the browser: jobs, their ranks and connections, progress and logs.

    It is served by this command, on this machine alone, with your own kubeconfig and rights, and
    changes nothing. The address has a key in it, which holds until the command ends.

    \b
    Example:
      kubectl dijob ui
      kubectl dijob ui -A --port 8123 --no-browser
    """

    async def act(client: "AsyncClient") -> None:
        from dijob.cli.ui.serving import Wish, serve

        await serve(client, Wish(all_namespaces, port or 0, not no_browser))

    call(where, act)
