"""`kubectl dijob watch`: a live view, which is implemented in dijob.cli.watching."""

from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client, print_outcome

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Outcome


@click.command()
@options.job
@options.cluster_options
def command(where: Where, name: str) -> None:
    """Show a live view of a job, its ranks and its events until the job ends.

    If the output is not a terminal, each change is printed as a line. The exit code is that of
    `wait`.

    \b
    Example:
      kubectl dijob watch test
    """

    async def act(client: "AsyncClient") -> "Outcome":
        from dijob.cli.watching.live import watch_job

        return await watch_job(client, name)

    print_outcome(call_client(where, act))
