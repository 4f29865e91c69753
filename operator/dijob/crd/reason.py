"""What there is to say about one reason of a condition."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """How to take a reason."""

    GOOD = "good"
    WAITING = "waiting"
    PROBLEM = "problem"
    OVER = "over"


@dataclass(frozen=True)
class Reason:
    """One reason of a condition that is True, or False: `status`."""

    name: str
    status: bool
    kind: Kind
    means: str
    remedy: str = ""


@dataclass(frozen=True)
class About:
    """A type of condition: what it says, and its reasons in the order in which a job meets them."""

    text: str
    reasons: tuple[Reason, ...]


def good(name: str, means: str, status: bool = True) -> Reason:
    """As it should be."""
    return Reason(name, status, Kind.GOOD, means)


def waiting(name: str, means: str, remedy: str = "", status: bool = False) -> Reason:
    """On its way, or held by somebody's wish."""
    return Reason(name, status, Kind.WAITING, means, remedy)


def problem(name: str, means: str, remedy: str, status: bool = False) -> Reason:
    """Went wrong, whether somebody must act or it heals by itself."""
    return Reason(name, status, Kind.PROBLEM, means, remedy)


def over(name: str, means: str, remedy: str = "", status: bool = False) -> Reason:
    """Will not change any more."""
    return Reason(name, status, Kind.OVER, means, remedy)


# Of every condition about a job that has its pods.
SUSPENDED: Final = waiting("Suspended", "the job is suspended, see Suspended")
FINISHED: Final = over("Finished", "the job has ended, see Succeeded and Failed")
