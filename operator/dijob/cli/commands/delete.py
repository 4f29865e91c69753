"""`kubectl dijob delete`: deletes jobs, and by default waits until their pods are gone.

A new job of the same name cannot start before that.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient


@click.command()
@options.some_jobs
@click.option("--wait/--no-wait", default=True, help="Wait until the pods are gone (the default).")
@options.timeout_option(300, "5m")
@options.cluster_options
def command(where: Where, names: Sequence[str], wait: bool, timeout: float) -> None:
    """Delete jobs and their pods, and wait until the pods are gone.

    \b
    Example:
      kubectl dijob delete test
    """

    async def act(client: "AsyncClient") -> None:
        # One after the other, so that a line is printed only when its job is gone.
        for name in names:
            await client.delete(name, timeout=timeout if wait else None)
            echo(f"dijob/{name} deleted")

    call_client(where, act)
