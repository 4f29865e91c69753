"""`kubectl dijob scale`: writes the number of pods by the scale subresource."""

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.printing import echo
from dijob.names import MAX_REPLICAS


@click.command()
@options.job
@click.option(
    "--replicas", type=click.IntRange(1, MAX_REPLICAS), required=True, help="Number of pods."
)
@options.cluster_options
def command(where: Where, name: str, replicas: int) -> None:
    """Change the number of pods of a job.

    New ranks join the running ones. When the job shrinks, the highest ranks leave. To scale a job
    with tasks, change `replicas` of its last task and apply the file.

    \b
    Example:
      kubectl dijob scale test --replicas 5
    """
    # The scale subresource, so that the right to scale is enough, as with `kubectl scale`.
    call_client(where, lambda client: client.scale(name, replicas))
    echo(f"dijob/{name} scaled to {replicas}")
