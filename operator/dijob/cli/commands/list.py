"""`kubectl dijob list`: prints the jobs of a namespace in the formats of `kubectl get`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.printing import echo, show


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="List the jobs of all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Label selector, such as team=blue."
)
@options.output("table", "json", "yaml", "name")
@options.cluster
def command(where: Where, all_namespaces: bool, selector: str, output: str) -> None:
    """List the jobs of a namespace.

    \b
    Example:
      kubectl dijob list -A
    """

    found = call(where, lambda client: client.list(everywhere=all_namespaces, selector=selector))
    if not found and output == "table":
        echo("No DIJobs found.", err=True)
        return
    show(found, output, many=True, namespaces=all_namespaces)
