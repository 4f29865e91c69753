"""`kubectl dijob get` and `list`: print jobs in the formats of `kubectl get`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.commands.completion import complete_jobs
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo, print_jobs

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=complete_jobs)
@options.list_options
@options.output_option("table", "json", "yaml", "name")
@options.cluster_options
def get_command(
    where: Where, names: Sequence[str], all_namespaces: bool, selector: str, output: str
) -> None:
    """Show the named jobs, or list all jobs of a namespace.

    \b
    Example:
      kubectl dijob get test -o yaml
    """
    if not names:
        _print_list(where, all_namespaces, selector, output)
        return
    if all_namespaces or selector:
        raise CliError("--all-namespaces and --selector cannot be combined with names", Exit.USAGE)

    async def act(client: "AsyncClient") -> "list[Job]":
        return [await client.get(name) for name in names]

    print_jobs(call_client(where, act), output, many=len(names) > 1)


@click.command()
@options.list_options
@options.output_option("table", "json", "yaml", "name")
@options.cluster_options
def list_command(where: Where, all_namespaces: bool, selector: str, output: str) -> None:
    """List the jobs of a namespace.

    \b
    Example:
      kubectl dijob list -A
    """
    _print_list(where, all_namespaces, selector, output)


def _print_list(where: Where, all_namespaces: bool, selector: str, output: str) -> None:
    found = call_client(
        where, lambda client: client.list(everywhere=all_namespaces, selector=selector)
    )
    if not found and output == "table":
        echo("No DIJobs found.", err=True)
        return
    print_jobs(found, output, many=True, namespaces=all_namespaces)
