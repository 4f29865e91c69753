"""`kubectl dijob get`: prints jobs by name in the formats of `kubectl get`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.printing import show

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job


@click.command()
@options.some_jobs
@options.output("table", "json", "yaml", "name")
@options.cluster
def command(where: Where, names: Sequence[str], output: str) -> None:
    """Show the named jobs.

    \b
    Example:
      kubectl dijob get test -o yaml
    """

    async def act(client: "AsyncClient") -> "list[Job]":
        return [await client.get(name) for name in names]

    show(call(where, act), output, many=len(names) > 1)
