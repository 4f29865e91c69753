"""`kubectl dijob resume`."""

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
    """Bring suspended jobs back, with the same ranks.

    They start from their checkpoints, where their programs have any.

    \b
    Example:
      kubectl dijob resume test
    """

    async def act(client: "AsyncClient") -> None:
        for name in names:
            await client.resume(name)
            click.echo(f"dijob/{name} resumed")

    call(where, act)
