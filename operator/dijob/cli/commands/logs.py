"""`kubectl dijob logs`: prints the logs of the ranks. The client reads and merges them."""

import sys
from collections.abc import Collection
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from dijob.api.printed import coloured_line
from dijob.cli import options
from dijob.cli.calling import Where, call_client, check_ranks
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, Line, LogOptions


# Red is not used, because many programs print errors in red. Black and white are not used, because
# they are invisible on some backgrounds.
COLOURS: Final = (
    "cyan",
    "yellow",
    "green",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_yellow",
    "bright_green",
    "bright_magenta",
    "bright_blue",
)


@dataclass(frozen=True)
class Prefix:
    """The format of log lines.

    `width` is the number of digits of the highest rank. It is 0 if only one rank is shown, because
    the lines then need no prefix. In a terminal, the prefix has the color of its rank. `raw` keeps
    control characters, which are otherwise removed from the output to a terminal.
    """

    width: int = 0
    timestamps: bool = False
    terminal: bool = False
    raw: bool = False

    def of(self, ranks: Collection[int] | None, size: int) -> "Prefix":
        """Return the line format for the given ranks (None for all) of a job with `size` ranks."""
        # The size is 0 until the operator has observed the job. In that case, several ranks are
        # assumed.
        shown = len(ranks) if ranks is not None else max(size, 2)
        highest = max(ranks) if ranks else max(size - 1, 0)
        return replace(self, width=len(str(highest)) if shown > 1 else 0)

    def put(self, line: "Line") -> str:
        """Return the line with its prefix and, if requested, its timestamp."""
        text = coloured_line(line.text) if self.terminal and not self.raw else line.text
        stamp = f"{line.stamp} " if self.timestamps else ""
        if not self.width:
            return stamp + text
        mark = f"[{line.rank:>{self.width}}]"
        # Only the prefix gets the rank's color, because the line may have its own colors.
        if self.terminal:
            mark = click.style(mark, fg=COLOURS[line.rank % len(COLOURS)])
        return f"{mark} {stamp}{text}"


class PrintOptions(TypedDict):
    """The options, as click passes them."""

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
@click.option("--rank", metavar="RANKS", help="Only these ranks, for example 0 or 0-2,5.")
@click.option("--task", default="", metavar="NAME", help="Only the ranks of this task.")
@click.option("--all", "every", is_flag=True, help="All ranks (the default).")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the job ends.")
@click.option("--previous", is_flag=True, help="Logs from before the last container restart.")
@click.option(
    "--since",
    type=options.DURATION,
    metavar="DURATION",
    help="Only lines newer than this, for example 10m.",
)
@click.option(
    "--tail", type=click.IntRange(min=0), help="Only this many lines, from the end of each log."
)
@click.option("--timestamps", is_flag=True, help="Print the UTC time before each line.")
@click.option("--raw", is_flag=True, help="Keep control characters when printing to a terminal.")
@options.cluster_options
def logs_command(where: Where, name: str, **given: Unpack[PrintOptions]) -> None:
    """Print the logs of all ranks as one stream, in chronological order.

    With -f the stream continues across restarts and replaced pods, and ends with the job. If
    several ranks are shown, each line begins with its rank. The logs of deleted pods are lost:
    follow the job from its start, or run a log collector. Without -f, the command fails if no rank
    has a log.

    In a terminal, lines keep their colors. Other control characters are removed, so that a
    program cannot manipulate the terminal; --raw keeps them. A pipe or a file receives each line
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
        if not chosen.follow:
            await _check_log_exists(client, job, chosen)
        await _print_lines(client, name, chosen, prefix)
        # A followed log ends when the job ends, so the outcome is printed as the last line.
        if chosen.follow:
            await _print_outcome(client, name)

    call_client(where, act)


def options_of(given: PrintOptions, job: "Job") -> "LogOptions":
    """Convert the options into the client's LogOptions. Raises CliError if the job has no such
    rank or task.
    """
    from dijob.client import LogOptions
    from dijob.client.loglines import ranks_in

    if given["every"] and (given["rank"] or given["task"]):
        raise CliError("--all cannot be combined with --rank or --task", Exit.USAGE)
    if given["follow"] and given["previous"]:
        raise CliError(
            "--previous cannot be combined with --follow: the previous log is complete", Exit.USAGE
        )
    try:
        ranks = ranks_in(given["rank"]) if given["rank"] else None
    except ValueError as error:
        raise CliError(f"--rank: {error}", Exit.USAGE) from error
    check_ranks(job, ranks or ())
    # A task without a name is identified by its type.
    tasks = [one.get("name") or one.get("type") for one in job.body["spec"].get("tasks") or ()]
    if given["task"] and given["task"] not in tasks:
        tasks_text = f"its tasks are {', '.join(map(str, tasks))}" if tasks else "it has no tasks"
        raise CliError(f"job {job.name} has no task {given['task']}: {tasks_text}", Exit.NOT_FOUND)
    return LogOptions(
        ranks=ranks,
        task=given["task"],
        follow=given["follow"],
        previous=given["previous"],
        # The API accepts only whole seconds greater than 0.
        since=None if given["since"] is None else max(1, round(given["since"])),
        tail=given["tail"],
    )


async def print_logs(client: "AsyncClient", name: str) -> None:
    """Print the logs of all ranks until the job ends."""
    from dijob.client import LogOptions

    job = await client.get(name)
    size = job.status.desired or job.body["spec"].get("replicas") or 0
    prefix = Prefix(terminal=sys.stdout.isatty()).of(None, size)
    await _print_lines(client, name, LogOptions(follow=True), prefix)


async def _print_lines(
    client: "AsyncClient", name: str, chosen: "LogOptions", prefix: Prefix
) -> None:
    async with aclosing(client.logs(name, chosen)) as lines:
        async for line in lines:
            # By default click would remove colors from output to a pipe. A pipe must receive the
            # bytes that the program printed.
            click.echo(prefix.put(line), color=True)


async def _check_log_exists(client: "AsyncClient", job: "Job", chosen: "LogOptions") -> None:
    """Raise CliError if none of the ranks has a log, because the command would print nothing."""
    pods = [pod for pod in await client.pods(job) if chosen.wants(pod.rank, pod.task)]
    # A container that is waiting to be restarted still has the log of its last run.
    if any(pod.started or pod.restarts for pod in pods):
        return
    state = f"job {job.name} is {job.phase}: {job.message.rstrip('.')}"
    if job.finished:
        raise CliError(
            f"{state}; its pods have been deleted, and their logs with them", Exit.NOT_FOUND
        )
    raise CliError(f"{state}; no rank has a log yet: add --follow to wait for it")


async def _print_outcome(client: "AsyncClient", name: str) -> None:
    from dijob.client import NotFound

    try:
        outcome = (await client.get(name)).outcome
    except NotFound:
        echo(f"job {name} was deleted", err=True)
        return
    if outcome is not None:
        echo(str(outcome), err=True)
