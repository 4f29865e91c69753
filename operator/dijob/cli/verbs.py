"""Builds commands that apply one action to each of the named jobs, such as suspend and resume."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call_client
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Act = Callable[["AsyncClient", str], Awaitable[object]]


def build_command(act: Act, done: str, help: str) -> click.Command:
    """Return a command that takes job names. `done` is the word printed for each job."""

    @click.command(help=help)
    @options.some_jobs
    @options.cluster_options
    def command(where: Where, names: Sequence[str]) -> None:
        async def each(client: "AsyncClient") -> None:
            # One after the other: the lines printed before an error say which jobs are done.
            for name in names:
                await act(client, name)
                echo(f"dijob/{name} {done}")

        call_client(where, each)

    return command
