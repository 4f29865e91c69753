"""Checks that a job has the ranks that the user names."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dijob.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from dijob.client import Job


def check_ranks(job: "Job", ranks: Iterable[int]) -> None:
    """Raise CliError (NOT_FOUND) if the job does not have one of the ranks.

    Any rank is accepted until the job's status says how many there are.
    """
    from dijob.client.loglines import find_unknown_ranks

    size = job.status.desired
    if size and (absent := find_unknown_ranks(ranks, size)):
        raise CliError(
            f"job {job.name} has no rank {absent[0]}: its ranks are 0 to {size - 1}", Exit.NOT_FOUND
        )
