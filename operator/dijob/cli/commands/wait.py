"""`kubectl dijob wait`."""

import click

from dijob.cli import options
from dijob.cli.calling import Where
from dijob.cli.waiting import outcome

GOALS = ("finished", "succeeded", "running")


@click.command()
@options.job
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS),
    default=GOALS[0],
    show_default=True,
    help="finished and succeeded both wait for the end; running ends as soon as the job runs.",
)
@options.timeout()
@options.cluster
def command(where: Where, name: str, goal: str, timeout: float | None) -> None:
    """Wait until a job has ended, and end with its outcome.

    Each change of its phase, message or progress is said on stderr meanwhile. Exit codes: 0 it has
    succeeded (or runs), 1 it has failed, 3 there is none or it was deleted, 6 the time is over.

    \b
    Example:
      kubectl dijob wait test --timeout 10m
    """
    outcome(where, name, goal, timeout)
