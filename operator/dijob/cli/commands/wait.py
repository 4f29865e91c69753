"""`kubectl dijob wait` and `watch`, and the `--wait` option of other commands.

Changes to a job are printed on stderr, and the job's outcome determines the exit code.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dijob.cli import options
from dijob.cli.calling import Narrator, Where, call_client, client_errors, print_outcome
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Outcome
    from dijob.client.waiting import Goal

GOALS = ("finished", "succeeded", "running")


def check_timeout(timeout: float | None, *, waits: bool, by: str) -> None:
    """Raise CliError (USAGE) if --timeout is given without an option that waits.

    `by` names these options for the message.
    """
    if timeout is not None and not waits:
        raise CliError(f"--timeout has no effect without {by}: add {by}", Exit.USAGE)


def wait_for_outcome(
    where: Where, name: str, goal: "Goal" = "finished", timeout: float | None = None
) -> None:
    """Wait for one job and print its outcome. Raises CliError if the job did not succeed."""
    print_outcome(call_client(where, lambda client: client.wait(name, goal, timeout, Narrator())))


def wait_for_outcomes(where: Where, jobs: Sequence[dict[str, Any]], timeout: float | None) -> None:
    """Wait for several applied jobs concurrently, and print all outcomes.

    Afterwards, raises the CliError of the first job that did not succeed.
    """

    async def act(client: "AsyncClient") -> "list[Outcome | BaseException]":
        waits = (
            # A manifest may name a different namespace than the command line.
            client.within(job["metadata"]["namespace"]).wait(
                job["metadata"]["name"], timeout=timeout, seen=Narrator()
            )
            for job in jobs
        )
        # One failed wait must not cancel the others.
        return await asyncio.gather(*waits, return_exceptions=True)

    print_outcomes(call_client(where, act))


def print_outcomes(found: "Sequence[Outcome | BaseException]") -> None:
    """Print the result of each wait. Raises the CliError of the first wait that did not succeed.

    The other errors are printed, so that no outcome is lost. Only one error can determine the exit
    code.
    """
    errors = []
    for one in found:
        try:
            with client_errors():
                if isinstance(one, BaseException):
                    raise one
                print_outcome(one)
        except CliError as error:
            errors.append(error)
    for another in errors[1:]:
        echo(f"Error: {another}", err=True)
    if errors:
        raise errors[0]


@click.command()
@options.job
@click.option(
    "--for",
    "goal",
    type=click.Choice(GOALS),
    default=GOALS[0],
    show_default=True,
    help="With finished or succeeded, wait until the job ends; with running, until it is running.",
)
@options.timeout_option()
@options.cluster_options
def wait_command(where: Where, name: str, goal: "Goal", timeout: float | None) -> None:
    """Wait until a job ends, and exit with its outcome.

    Changes to the job's phase, message and progress are printed on stderr. Exit codes: 0 the job
    succeeded (or is running), 1 it failed, 3 it does not exist or was deleted, 6 the timeout
    expired.

    \b
    Example:
      kubectl dijob wait test --timeout 10m
    """
    wait_for_outcome(where, name, goal, timeout)


@click.command()
@options.job
@options.cluster_options
def watch_command(where: Where, name: str) -> None:
    """Show a live view of a job, its ranks and its events until the job ends.

    If the output is not a terminal, each change is printed as a line. The exit code is that of
    `wait`.

    \b
    Example:
      kubectl dijob watch test
    """

    async def act(client: "AsyncClient") -> "Outcome":
        from dijob.cli.watching.live import watch_job

        return await watch_job(client, name)

    print_outcome(call_client(where, act))
