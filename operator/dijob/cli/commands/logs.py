"""`kubectl dijob logs`."""

import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.errors import CliError, Exit
from dijob.cli.loglines import Prefix
from dijob.cli.printing import echo
from dijob.cli.ranks import known

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, LogOptions


class Given(TypedDict):
    """The options."""

    rank: str | None
    task: str
    every: bool
    follow: bool
    previous: bool
    since: float | None
    tail: int | None
    timestamps: bool
    raw: bool


@click.command()
@options.job
@click.option("--rank", metavar="RANKS", help="Only these, as 0 or 0-2,5.")
@click.option("--task", default="", metavar="NAME", help="Only the ranks of this task.")
@click.option("--all", "every", is_flag=True, help="All ranks, which is the default.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--previous", is_flag=True, help="What was printed before the last restart.")
@click.option("--since", type=options.DURATION, metavar="DURATION", help="As 10m: not the older.")
@click.option("--tail", type=click.IntRange(min=0), help="The last lines of each rank.")
@click.option("--timestamps", is_flag=True, help="Each line with its time, UTC.")
@click.option("--raw", is_flag=True, help="Print control characters to a terminal, too.")
@options.cluster
def command(where: Where, name: str, **given: Unpack[Given]) -> None:
    """The logs of all ranks as one, in the order of time.

    With -f it goes on over restarts and pods that are replaced, and ends with the job. Where
    several ranks are shown, each line begins with its rank. What a pod that is gone has printed is
    lost: follow from the start, or have a log collector.

    In a terminal, lines keep their colours; other control characters are left out, so that a
    program cannot change the terminal. --raw prints them as well. A pipe or a file gets each line
    as it was printed.

    \b
    Example:
      kubectl dijob logs test -f
      kubectl dijob logs test --rank 0,2-3 --since 10m
    """

    async def act(client: "AsyncClient") -> None:
        job = await client.get(name)
        chosen = options_of(given, job)
        shown = Prefix(
            timestamps=given["timestamps"], terminal=sys.stdout.isatty(), raw=given["raw"]
        )
        prefix = shown.of(chosen.ranks, job.status.desired)
        async with aclosing(client.logs(name, chosen)) as lines:
            async for line in lines:
                # Left to itself, click removes colours from what goes into a pipe.
                click.echo(prefix.put(line), color=True)
        if chosen.follow:
            await _say_end(client, name)

    call(where, act)


def options_of(given: Given, job: "Job") -> "LogOptions":
    """What the client is asked for. Raises CliError for a rank or task that the job lacks."""
    from dijob.client import LogOptions
    from dijob.client.loglines import ranks_in

    if given["every"] and (given["rank"] or given["task"]):
        raise CliError("--all goes with neither --rank nor --task: leave one out", Exit.USAGE)
    if given["follow"] and given["previous"]:
        raise CliError("--previous has an end: leave --follow out", Exit.USAGE)
    try:
        ranks = ranks_in(given["rank"]) if given["rank"] else None
    except ValueError as error:
        raise CliError(f"--rank: {error}", Exit.USAGE) from error
    known(job, ranks or ())
    tasks = [one.get("name") or one.get("type") for one in job.body["spec"].get("tasks") or ()]
    if given["task"] and given["task"] not in tasks:
        there = f"its tasks are {', '.join(map(str, tasks))}" if tasks else "it has no tasks"
        raise CliError(f"{job.name} has no task {given['task']}: {there}", Exit.NOT_FOUND)
    return LogOptions(
        ranks=ranks,
        task=given["task"],
        follow=given["follow"],
        previous=given["previous"],
        since=None if given["since"] is None else max(1, round(given["since"])),
        tail=given["tail"],
    )


async def _say_end(client: "AsyncClient", name: str) -> None:
    from dijob.client import NotFound

    try:
        outcome = (await client.get(name)).outcome
    except NotFound:
        echo(f"{name} was deleted", err=True)
        return
    if outcome is not None:
        echo(str(outcome), err=True)
