"""Divides the wall time of a job, and of each of its ranks, into parts. No I/O."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dijob.api.status import Interruption
from dijob.core.members import format_count, format_ranks, parse_ranks
from dijob.core.report.goodput import NOT_READY
from dijob.core.report.milestones import CRASHED
from dijob.core.report.time_spent import TimeSpent
from dijob.names import Activity
from dijob.reasons import AddressesReady


class Kind(StrEnum):
    """The kind of a part. Each kind is drawn differently."""

    RUNNING = "running"
    REPEATED = "repeated"
    LOST = "lost"
    STARTING = "starting"
    WAITING = "waiting"


# The descriptions of interruptions that were not caused by a lost rank.
_CAUSES: Final = {
    AddressesReady.Scaled.name: "restart with a new size",
    AddressesReady.BrokerLost.name: "lost Redis server",
    AddressesReady.ListLost.name: "lost peer list",
}


@dataclass(frozen=True)
class TimePart:
    """A part of the wall time. For an interruption, it also contains the start time and the ranks
    that restarted.
    """

    kind: Kind
    label: str
    seconds: int
    began: str = ""
    ranks: str = ""


def divide_time(spent: TimeSpent) -> list[TimePart]:
    """Return the parts of the job's wall time, in a fixed order. Their sum is `spent.total`."""
    seconds = spent.seconds
    return [
        TimePart(Kind.RUNNING, "running", spent.productive),
        TimePart(Kind.REPEATED, "repeated iterations", spent.repeated),
        *_list_interruptions(spent),
        TimePart(Kind.STARTING, "starting", seconds[Activity.STARTING]),
        TimePart(Kind.WAITING, "waiting or suspended", seconds[Activity.WAITING]),
    ]


def divide_rank_time(spent: TimeSpent, rank: int) -> list[TimePart]:
    """Return the parts of one rank's time. For a rank that kept running during an interruption,
    that time counts as running.
    """
    parts = divide_time(spent)
    affected = [part for part in parts if part.kind is not Kind.LOST or _affects(part, rank)]
    kept = spent.total - sum(part.seconds for part in affected)
    first = TimePart(Kind.RUNNING, "running", spent.productive + kept)
    return [first, *affected[1:]]


def share_percent(parts: Sequence[TimePart]) -> list[int]:
    """Return the percentage of each part. They add up to 100, unless the total is 0."""
    total = sum(part.seconds for part in parts)
    if not total:
        return [0] * len(parts)
    shares = [part.seconds * 100 // total for part in parts]
    # The parts that lost the most in rounding down get the missing percentage points.
    order = sorted(range(len(parts)), key=lambda at: -(parts[at].seconds * 100 % total))
    for at in order[: 100 - sum(shares)]:
        shares[at] += 1
    return shares


def describe_interruption(one: Interruption) -> str:
    """Return the cause of an interruption, for example "lost rank 3"."""
    lost = parse_ranks(one.lost)
    ranks = format_ranks(lost) if lost else "ranks"
    if one.reason in _CAUSES:
        return _CAUSES[one.reason]
    if one.reason == CRASHED:
        return f"crash of {ranks}"
    if one.reason == NOT_READY:
        return f"{ranks} not Ready"
    if one.reason == AddressesReady.FailurePolicy.name:
        return f"restart of all ranks after a failure of {ranks}"
    return f"lost {ranks}"


def _list_interruptions(spent: TimeSpent) -> Iterator[TimePart]:
    if spent.earlier_count:
        label = format_count(spent.earlier_count, "earlier interruption")
        yield TimePart(Kind.LOST, label, spent.earlier_seconds)
    for one in spent.interruptions:
        label = describe_interruption(one)
        yield TimePart(Kind.LOST, label, one.seconds, began=one.time, ranks=one.ranks)


def _affects(part: TimePart, rank: int) -> bool:
    # Earlier interruptions are no longer listed individually, and their ranks are unknown. So they
    # count for every rank.
    return not part.ranks or rank in parse_ranks(part.ranks)
