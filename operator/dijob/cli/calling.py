"""Opens the client with the user's options, and turns its errors into exit codes.

The client is also a library, so it signals each kind of error with its own type of exception. Only
this module maps these exceptions to exit codes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
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
    """The cluster and namespace that the options name. None means the kubeconfig's default."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None


def call_client(where: Where, act: "Callable[[AsyncClient], Awaitable[Answer]]") -> Answer:
    """Open a client, call `act` with it, and return the result. Raises CliError."""
    with client_errors():
        # Importing the client takes a third of a second, which is too long for `--help`.
        from dijob.client import AsyncClient

        async def session() -> Answer:
            async with AsyncClient(where.kubeconfig, where.context, where.namespace) as client:
                return await act(client)

        return asyncio.run(session())


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn the client's exceptions into CliError with the matching exit codes."""
    from dijob.client import errors

    # The first match is used, so NotFound comes before its base class ApiError.
    codes = (
        (errors.NotFound, Exit.NOT_FOUND),
        (errors.ApiError, Exit.REFUSED),
        (errors.Unreachable, Exit.UNREACHABLE),
        (errors.TimedOut, Exit.TIMED_OUT),
        (errors.BadFile, Exit.USAGE),
        (errors.BadName, Exit.USAGE),
        (errors.BadValue, Exit.USAGE),
    )
    try:
        yield
    except errors.DijobError as error:
        code = next((code for kind, code in codes if isinstance(error, kind)), Exit.FAILED)
        hint = ""
        if isinstance(error, errors.JobNotFound):
            hint = f"; if it has been deleted, see: kubectl dijob history {error.name}"
        raise CliError(f"{error}{hint}", code) from error


def print_outcome(outcome: "Outcome") -> None:
    """Print the outcome of a job. Raises CliError if the job did not succeed."""
    # A script that waits for a job must be able to tell whether the job was deleted or has failed.
    if outcome.deleted:
        raise CliError(str(outcome), Exit.NOT_FOUND)
    if outcome.phase == "Failed":
        raise CliError(str(outcome))
    echo(str(outcome))


class Narrator:
    """Prints each change to a job's phase, message or progress on stderr.

    The final state is not printed here: the command prints it on stdout or as an error.
    """

    def __init__(self) -> None:
        self._printed = ""

    def __call__(self, job: "Job") -> None:
        line = in_words(job)
        # A watch also delivers changes that the line does not show, such as the restart count.
        if line != self._printed and not job.finished:
            self._printed = line
            echo(line, err=True)


def in_words(job: "Job") -> str:
    """Describe a job in one line: name, phase, message and progress."""
    progress = f" [{job.progress.line}]" if job.progress and job.progress.line else ""
    return one_line(f"{job.name}: {job.phase}: {job.message}{progress}")


def check_ranks(job: "Job", ranks: Iterable[int]) -> None:
    """Raise CliError (NOT_FOUND) if any of the ranks does not exist in the job.

    Any rank is accepted until the job's status says how many ranks there are.
    """
    from dijob.client.loglines import find_unknown_ranks

    size = job.status.desired
    if size and (absent := find_unknown_ranks(ranks, size)):
        raise CliError(
            f"job {job.name} has no rank {absent[0]}: its ranks are 0 to {size - 1}", Exit.NOT_FOUND
        )
