"""Waiting for jobs: their changes on stderr, their outcomes as the exit code."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dijob.cli.calling import Narrator, Where, call, client_errors, ended
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Outcome


def check_timeout(timeout: float | None, *, waits: bool, by: str) -> None:
    """Raises CliError (USAGE) for a timeout that nothing would heed; `by` are the options that
    wait.
    """
    if timeout is not None and not waits:
        raise CliError(f"--timeout limits how long {by} waits: add {by}", Exit.USAGE)


def outcome(where: Where, name: str, goal: str = "finished", timeout: float | None = None) -> None:
    """Wait for one job, and say its outcome. Raises CliError where it has not succeeded."""
    ended(call(where, lambda client: client.wait(name, goal, timeout, Narrator())))


def outcomes(where: Where, jobs: Sequence[dict[str, Any]], timeout: float | None) -> None:
    """Wait for jobs that were applied, at once. Raises the CliError of the first that has not
    succeeded, once all are said.
    """

    async def act(client: "AsyncClient") -> "list[Outcome | BaseException]":
        waits = (
            # A file may name a namespace.
            client.within(job["metadata"]["namespace"]).wait(
                job["metadata"]["name"], timeout=timeout, seen=Narrator()
            )
            for job in jobs
        )
        return await asyncio.gather(*waits, return_exceptions=True)

    say(call(where, act))


def say(found: "Sequence[Outcome | BaseException]") -> None:
    """Say how each wait has ended. Raises the CliError of the first that has not ended well."""
    errors = []
    for one in found:
        try:
            with client_errors():
                if isinstance(one, BaseException):
                    raise one
                ended(one)
        except CliError as error:
            errors.append(error)
    for another in errors[1:]:
        echo(f"Error: {another}", err=True)
    if errors:
        raise errors[0]
