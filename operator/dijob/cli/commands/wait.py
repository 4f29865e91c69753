"""`kubectl dijob wait`: waits for a job, for scripts and CI jobs."""

import click

from dijob.cli import options
from dijob.cli.calling import Where
from dijob.cli.waiting import wait_for_outcome

GOALS = ("finished", "succeeded", "running")


@click.command()
@options.job
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS),
    default=GOALS[0],
    show_default=True,
    help="finished and succeeded wait until the job ends; running waits until the job runs.",
)
@options.timeout_option()
@options.cluster_options
def command(where: Where, name: str, goal: str, timeout: float | None) -> None:
    """Wait until a job ends, and exit with its outcome.

    Changes of the job's phase, message and progress are printed on stderr. Exit codes: 0 the job
    succeeded (or runs), 1 it failed, 3 it does not exist or was deleted, 6 the timeout expired.

    \b
    Example:
      kubectl dijob wait test --timeout 10m
    """
    wait_for_outcome(where, name, goal, timeout)
