"""Ranks that the user names, and whether the job has them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dijob.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from dijob.client import Job


def known(job: "Job", ranks: Iterable[int]) -> None:
    """Refuse a rank that the job lacks, as far as its status says how many it has. Raises CliError
    (NOT_FOUND).
    """
    from dijob.client.loglines import unknown

    size = job.status.desired
    if size and (absent := unknown(ranks, size)):
        raise CliError(
            f"{job.name} has no rank {absent[0]}: its ranks are 0 to {size - 1}", Exit.NOT_FOUND
        )
