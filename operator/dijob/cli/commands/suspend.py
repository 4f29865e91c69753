"""`kubectl dijob suspend`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call

if TYPE_CHECKING:
    from dijob.client import AsyncClient


@click.command()
@options.some_jobs
@options.cluster
def command(where: Where, names: Sequence[str]) -> None:
    """Take jobs off the cluster, until resume.

    Their pods end with their grace period. The jobs keep their ranks, and the room is free for
    others.

    \b
    Example:
      kubectl dijob suspend test
    """

    async def act(client: "AsyncClient") -> None:
        for name in names:
            await client.suspend(name)
            click.echo(f"dijob/{name} suspended")

    call(where, act)
