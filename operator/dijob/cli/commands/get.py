"""`kubectl dijob get`: prints jobs by name in the formats of `kubectl get`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.printing import print_jobs

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job


@click.command()
@options.some_jobs
@options.output_option("table", "json", "yaml", "name")
@options.cluster_options
def command(where: Where, names: Sequence[str], output: str) -> None:
    """Show the named jobs.

    \b
    Example:
      kubectl dijob get test -o yaml
    """

    async def act(client: "AsyncClient") -> "list[Job]":
        return [await client.get(name) for name in names]

    print_jobs(call_client(where, act), output, many=len(names) > 1)
