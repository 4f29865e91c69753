"""From a command to the cluster: the client with the user's options, its errors as exit codes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from dijob.api.printed import one_line
from dijob.cli.errors import CliError, Exit
from dijob.cli.printing import echo

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, Outcome

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Where:
    """Which cluster and namespace, as the options say; None: as the kubeconfig says."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None


def call(where: Where, act: "Callable[[AsyncClient], Awaitable[Answer]]") -> Answer:
    """What `act` returns with an open client. Raises CliError."""
    with client_errors():
        # The client takes a third of a second to import.
        from dijob.client import AsyncClient

        async def session() -> Answer:
            async with AsyncClient(where.kubeconfig, where.context, where.namespace) as client:
                return await act(client)

        return asyncio.run(session())


@contextmanager
def client_errors() -> Iterator[None]:
    """The client's errors become those of the command line."""
    from dijob.client import errors

    codes = (
        (errors.NotFound, Exit.NOT_FOUND),
        (errors.ApiError, Exit.REFUSED),
        (errors.Unreachable, Exit.UNREACHABLE),
        (errors.TimedOut, Exit.TIMED_OUT),
        (errors.BadFile, Exit.USAGE),
        (errors.BadName, Exit.USAGE),
    )
    try:
        yield
    except errors.DijobError as error:
        code = next((code for kind, code in codes if isinstance(error, kind)), Exit.FAILED)
        raise CliError(str(error), code) from error


def ended(outcome: "Outcome") -> None:
    """Say how a job has ended. Raises CliError where it has not succeeded."""
    if outcome.deleted:
        raise CliError(str(outcome), Exit.NOT_FOUND)
    if outcome.phase == "Failed":
        raise CliError(str(outcome))
    echo(str(outcome))


class Narrator:
    """Says each change of a job's phase, message or progress on stderr."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, job: "Job") -> None:
        line = in_words(job)
        if line != self._said and not job.finished:
            self._said = line
            echo(line, err=True)


def in_words(job: "Job") -> str:
    """Where a job stands, in a line."""
    progress = f" [{job.progress.line}]" if job.progress and job.progress.line else ""
    return one_line(f"{job.name}: {job.phase}: {job.message}{progress}")
