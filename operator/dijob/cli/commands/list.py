"""`kubectl dijob list`: prints the jobs of a namespace in the formats of `kubectl get`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.printing import echo, print_jobs


@click.command()
@click.option("-A", "--all-namespaces", is_flag=True, help="List the jobs of all namespaces.")
@click.option(
    "-l", "--selector", default="", metavar="LABELS", help="Label selector, such as team=blue."
)
@options.output_option("table", "json", "yaml", "name")
@options.cluster_options
def command(where: Where, all_namespaces: bool, selector: str, output: str) -> None:
    """List the jobs of a namespace.

    \b
    Example:
      kubectl dijob list -A
    """

    found = call_client(
        where, lambda client: client.list(everywhere=all_namespaces, selector=selector)
    )
    if not found and output == "table":
        echo("No DIJobs found.", err=True)
        return
    print_jobs(found, output, many=True, namespaces=all_namespaces)
