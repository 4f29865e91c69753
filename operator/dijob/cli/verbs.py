"""Commands that do one thing to each of some jobs, and say it."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import click

from dijob.cli import options
from dijob.cli.calling import Where, call
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient

Act = Callable[["AsyncClient", str], Awaitable[object]]


def verb(act: Act, done: str, help: str) -> click.Command:
    """A command that takes jobs' names; `done` is what it says of each."""

    @click.command(help=help)
    @options.some_jobs
    @options.cluster
    def command(where: Where, names: Sequence[str]) -> None:
        async def each(client: "AsyncClient") -> None:
            for name in names:
                await act(client, name)
                echo(f"dijob/{name} {done}")

        call(where, each)

    return command
