"""What an entry of the catalogue of reasons is."""

from dataclasses import dataclass
from enum import Enum, StrEnum


class ReasonKind(StrEnum):
    """How to take a reason."""

    GOOD = "good"
    WAITING = "waiting"
    PROBLEM = "problem"
    OVER = "over"


class EventType(StrEnum):
    """The type of the event that is published when a condition takes a reason."""

    NORMAL = "Normal"
    WARNING = "Warning"
    NONE = ""


@dataclass(frozen=True)
class Entry:
    """What there is to say about one reason."""

    status: bool
    kind: ReasonKind
    means: str
    remedy: str = ""
    event: EventType = EventType.NONE


class Reason(Enum):
    """A reason of a condition, as `Running.Blocked`.

    Each subclass is one type of condition: its name is the type's, its docstring says what the
    condition is about, and its members are the reasons, in the order in which a job meets them.
    Nothing else makes a condition (summary.Fact), so that a reason without an entry cannot be
    written.
    """

    @property
    def condition(self) -> str:
        """The type of the condition."""
        return self.__class__.__name__

    @property
    def entry(self) -> Entry:
        """Status, kind, meaning, remedy and event of the reason."""
        entry = self.value
        assert isinstance(entry, Entry)
        return entry


def good(means: str, *, status: bool = True, event: EventType = EventType.NONE) -> Entry:
    """As it should be."""
    return Entry(status, ReasonKind.GOOD, means, event=event)


def waiting(
    means: str, remedy: str = "", *, status: bool = False, event: EventType = EventType.NONE
) -> Entry:
    """On its way, or held by somebody's wish."""
    return Entry(status, ReasonKind.WAITING, means, remedy, event=event)


def problem(means: str, remedy: str, *, status: bool = False) -> Entry:
    """Went wrong, whether somebody must act or it heals by itself: the event is a Warning."""
    return Entry(status, ReasonKind.PROBLEM, means, remedy, event=EventType.WARNING)


def over(means: str, remedy: str = "", *, status: bool = False) -> Entry:
    """Will not change any more."""
    return Entry(status, ReasonKind.OVER, means, remedy)


def suspended() -> Entry:
    """Shared by the conditions about a job that has its pods."""
    return waiting("the job is suspended, see Suspended")


def terminating() -> Entry:
    """Shared by the conditions about a job whose pods go with it."""
    return waiting("the job is being deleted, see Terminating; the message counts its pods")


def finished() -> Entry:
    """Shared by the conditions that end with the job."""
    return over("the job has ended, see Finished")
