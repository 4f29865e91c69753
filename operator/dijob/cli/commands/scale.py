"""`kubectl dijob scale`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.printing import echo
from dijob.names import MAX_REPLICAS


@click.command()
@options.job
@click.option(
    "--replicas", type=click.IntRange(1, MAX_REPLICAS), required=True, help="How many pods."
)
@options.cluster
def command(where: Where, name: str, replicas: int) -> None:
    """Change how many pods a job wants.

    New ranks join those that run; when it shrinks, the highest ranks leave. A job with tasks is
    scaled by its last task, in its file.

    \b
    Example:
      kubectl dijob scale test --replicas 5
    """
    call(where, lambda client: client.scale(name, replicas))
    echo(f"dijob/{name} scaled to {replicas}")
