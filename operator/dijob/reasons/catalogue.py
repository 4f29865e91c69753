"""The form of an entry in the catalog of reasons.

Every condition that the operator writes is made from one of these entries. docs/conditions.md, the
events and `kubectl dijob doctor` read the same entry, so they cannot disagree about what a reason
means (docs/decisions/019).
"""

from dataclasses import dataclass
from enum import Enum, StrEnum


class ReasonKind(StrEnum):
    """How to interpret a reason. The status of a condition does not show whether there is a
    problem: Failed is a problem when it is True, but PeersReady is a problem when it is False.
    """

    GOOD = "good"
    WAITING = "waiting"
    PROBLEM = "problem"
    OVER = "over"


class EventType(StrEnum):
    """The type of the event that is published when a condition takes on a reason."""

    NORMAL = "Normal"
    WARNING = "Warning"
    NONE = ""


@dataclass(frozen=True)
class Entry:
    """The catalog's entry for one reason.

    `status` is the status of the condition that has the reason. `means` and `remedy` are shown to
    users; an empty `remedy` means that no action is needed.
    """

    status: bool
    kind: ReasonKind
    means: str
    remedy: str = ""
    event: EventType = EventType.NONE


class Reason(Enum):
    """A reason of a condition, such as `Running.Blocked`.

    Each subclass is one condition type. Its name is the type, and its docstring describes the
    condition. Its members are the reasons, in the order in which a job usually goes through them.
    Every member has an Entry. A condition can only be made from a member (core/facts.py, Fact), so
    the reason of a condition always has an Entry.
    """

    @property
    def condition(self) -> str:
        """The type of the condition."""
        return self.__class__.__name__

    @property
    def entry(self) -> Entry:
        """Status, kind, meaning, remedy and event of the reason."""
        entry = self.value
        # Enum does not type its values, so mypy needs this assertion to know the type of a member's
        # value.
        assert isinstance(entry, Entry)
        return entry


def good(means: str, *, status: bool = True, event: EventType = EventType.NONE) -> Entry:
    """Return an entry for a normal state."""
    return Entry(status, ReasonKind.GOOD, means, event=event)


def waiting(
    means: str, remedy: str = "", *, status: bool = False, event: EventType = EventType.NONE
) -> Entry:
    """Return an entry for a job that is in progress, or that a user holds on purpose."""
    return Entry(status, ReasonKind.WAITING, means, remedy, event=event)


def problem(means: str, remedy: str, *, status: bool = False) -> Entry:
    """Return an entry for something that went wrong, whether or not a user must act.

    Every problem publishes a Warning event, and no other entry does, so an alert on Warnings has no
    false positives.
    """
    return Entry(status, ReasonKind.PROBLEM, means, remedy, event=EventType.WARNING)


def over(means: str, remedy: str = "", *, status: bool = False) -> Entry:
    """Return an entry for a final state, which will not change."""
    return Entry(status, ReasonKind.OVER, means, remedy)


# Several conditions depend on the job's pods. When the job is not supposed to have pods, those
# conditions have the reasons below. Each reason refers to the condition that explains why there are
# no pods.


def suspended_entry() -> Entry:
    """Return the entry that is shared by conditions about pods while the job is suspended."""
    return waiting("the job is suspended, see Suspended")


def terminating_entry() -> Entry:
    """Return the entry that is shared by conditions about pods while the job is being deleted."""
    return waiting(
        "the job is being deleted, see Terminating; the message says how many pods are left"
    )


def finished_entry() -> Entry:
    """Return the entry that is shared by conditions about pods once the job has ended."""
    return over("the job has ended, see Finished")
