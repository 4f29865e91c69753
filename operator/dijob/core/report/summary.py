"""What the status says: conditions for programs, one phase for people, events for what has just
changed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from dijob import reasons
from dijob.api.status import Condition, Status, parse_time, timestamp
from dijob.core.actions import Event
from dijob.core.members import count
from dijob.core.observed.grouping import shorten
from dijob.names import Phase
from dijob.reasons import EventType, Reason, ReasonKind

# The status's message stands in a column of `kubectl get`; the conditions have the whole sentences.
MESSAGE_LIMIT = 200
# What voids a good result.
# What the ranks share: no pod, or no program, starts without it.
SHARED = (reasons.Isolated, reasons.ServiceReady, reasons.BrokerReady)
BYPASSED = "each pod may train alone, see LauncherBypassed"
OTHERWISE = "the program's arguments conflict with the job, see SpecWarning"


@dataclass(frozen=True)
class Fact:
    """One condition as this pass sees it."""

    reason: Reason
    message: str = ""


def find(status: Status, condition: type[Reason]) -> Condition | None:
    """The stored condition of this type; None where the status has none."""
    return next((c for c in status.conditions if c.type == condition.__name__), None)


def is_true(status: Status, condition: type[Reason]) -> bool:
    """Whether the stored status has this condition as True."""
    found = find(status, condition)
    return found is not None and found.status == "True"


def phase(status: Status) -> Phase:
    """The phase that the conditions add up to."""
    for condition, word in (
        (reasons.Failed, Phase.FAILED),
        (reasons.Succeeded, Phase.SUCCEEDED),
        (reasons.Terminating, Phase.TERMINATING),
        (reasons.Suspended, Phase.SUSPENDED),
        (reasons.Running, Phase.RUNNING),
        (reasons.AddressesReady, Phase.STARTING),
    ):
        if is_true(status, condition):
            return word
    return Phase.PENDING


def message(status: Status) -> str:
    """The sentence that matters most now: why the job ended, what is wrong, or what it waits for.

    At most MESSAGE_LIMIT characters.
    """
    sentence = _main_sentence(status)
    doubts = [] if is_true(status, reasons.Failed) else _doubts(status)
    going = find(status, reasons.Terminating)
    return shorten(
        "; ".join([*([going.message] if going else []), *doubts, sentence]), MESSAGE_LIMIT
    )


def _doubts(status: Status) -> Iterator[str]:
    """What may be wrong with a good result."""
    if is_true(status, reasons.LauncherBypassed):
        yield BYPASSED
    warning = find(status, reasons.SpecWarning)
    if warning and warning.reason == reasons.SpecWarning.ProgramSaysOtherwise.name:
        yield OTHERWISE


def _main_sentence(status: Status) -> str:
    for type_, bad in (
        (reasons.Failed, "True"),
        (reasons.Succeeded, "True"),
        (reasons.Paused, "True"),
        (reasons.Invalid, "True"),
        (reasons.ChangesRefused, "True"),
        (reasons.PodsCreated, "False"),
        *((shared, "False") for shared in SHARED if _is_problem(find(status, shared))),
        (reasons.AddressesReady, "False"),
        *([(reasons.PeersReady, "False")] if is_true(status, reasons.Running) else []),
    ):
        condition = find(status, type_)
        # That pods are being created says less than why.
        creating = (
            type_ is reasons.PodsCreated
            and condition
            and condition.reason == reasons.PodsCreated.Creating.name
        )
        if condition and condition.status == bad and not creating:
            return condition.message
    running = find(status, reasons.Running)
    return running.message if running else ""


def _is_problem(condition: Condition | None) -> bool:
    reason = reasons.find(condition.type, condition.reason) if condition else None
    return reason is not None and reason.entry.kind is ReasonKind.PROBLEM


class Pressure(Enum):
    """How soon a change of the status is to be written."""

    AT_ONCE = auto()
    SOON = auto()  # news: the first sight of a job, what went wrong or is right again, a success
    RARELY = auto()  # progress: counts, and the names of those that the job still waits for


def pressure(old: Status, new: Status) -> Pressure:
    """How soon the change from one status to the other is to be written."""
    if _is_urgent(old, new):
        return Pressure.AT_ONCE
    first = not old.phase
    if first and (problems(new) or _waits_for_old_pods(new)):
        return Pressure.AT_ONCE
    return Pressure.SOON if first or _is_news(old, new) else Pressure.RARELY


def _waits_for_old_pods(status: Status) -> bool:
    """Whether the job was applied while the pods of a former one of its name still end."""
    created = find(status, reasons.PodsCreated)
    return created is not None and created.reason == reasons.PodsCreated.WaitingForOldPod.name


def problems(status: Status) -> frozenset[tuple[str, str, str]]:
    """Type, reason and message of each condition that says that something is wrong. The message
    is part of it, since it names the ranks.
    """
    return frozenset(
        (condition.type, condition.reason, condition.message)
        for condition in status.conditions
        if _is_problem(condition)
    )


def _is_news(old: Status, new: Status) -> bool:
    """Whether somebody waits for the change: what went wrong, or is right again; a success, which
    is lost with its pod until it is written.
    """
    together = is_true(old, reasons.PeersReady) != is_true(new, reasons.PeersReady)
    succeeded = old.succeeded_ranks != new.succeeded_ranks
    return together or succeeded or problems(old) != problems(new)


def _is_urgent(old: Status, new: Status) -> bool:
    """Whether a change must be written at once: Running, the job's end, a list that begins or has
    died, a pause, a failure (the pod that shows it is not deleted before).
    """
    begun = is_true(new, reasons.Running) and not is_true(old, reasons.Running)
    begun = begun or is_true(new, reasons.Paused) != is_true(old, reasons.Paused)
    begun = begun or old.suspend_time != new.suspend_time
    begun = begun or old.list_number != new.list_number
    lost = (
        old.last_renewal != new.last_renewal
        or old.restarts != new.restarts
        or old.given_back != new.given_back
    )
    return begun or lost or new.ended != old.ended


def conclude(status: Status, facts: Iterable[Fact], generation: int, now: datetime) -> Status:
    """The status with the facts as its conditions. Conditions that no fact is about stay as they
    were.
    """
    kept = {condition.type: condition for condition in status.conditions}
    first = not status.phase  # the first status is put off: what is False has been since the start
    for fact in facts:
        type_ = fact.reason.condition
        since = status.start_time if first and not fact.reason.entry.status else ""
        kept[type_] = _condition(kept.get(type_), fact, generation, since or timestamp(now))
    kept.pop(reasons.Finished.__name__, None)
    if finished := _finished(kept, now):
        kept[finished.type] = finished
    order = {each.__name__: number for number, each in enumerate(reasons.CATALOGUE)}
    conditions = tuple(sorted(kept.values(), key=lambda c: order.get(c.type, len(order))))
    status = status.model_copy(update={"conditions": conditions, "observed_generation": generation})
    return status.model_copy(update={"phase": phase(status).value, "message": message(status)})


def events(old: Status, new: Status) -> tuple[Event, ...]:
    """The events that a change of the status is worth: one for each condition whose new reason has
    an event in the catalogue, and Scaled for a running job whose list has another size.
    """
    before = {c.type: c for c in old.conditions}
    changed = [
        event
        for condition in new.conditions
        if (event := _event(old, before.get(condition.type), condition))
    ]
    return (*changed, *_scaled(old, new))


def _event(status: Status, before: Condition | None, now: Condition) -> Event | None:
    """The event of a condition that has become `now`; `status` is the one before."""
    if before and (before.status, before.reason) == (now.status, now.reason):
        return None
    reason = reasons.find(now.type, now.reason)
    if reason is None or reason.entry.event is EventType.NONE:
        return None
    # At the first start Running says it all.
    if reason is reasons.PeersReady.AllRanksReady and not is_true(status, reasons.Running):
        return None
    warning = reason.entry.event is EventType.WARNING
    good = reason.entry.kind is ReasonKind.GOOD and reason.entry.status
    words = now.message + (_after(before, now) if good else "")
    return Event(
        now.type if good else now.reason, words or f"the job is {now.type}", warning=warning
    )


def _after(before: Condition | None, now: Condition) -> str:
    """How long the condition had been False: from the first sight of the job, a loss, or a
    resumption.
    """
    start = parse_time(before.last_transition_time) if before and before.status == "False" else None
    end = parse_time(now.last_transition_time)
    return f", after {(end - start).total_seconds():.0f} s" if start and end else ""


def _scaled(old: Status, new: Status) -> tuple[Event, ...]:
    if not (old.address_list and new.address_list and is_true(old, reasons.Running)):
        return ()
    was, size = old.address_list.size, new.address_list.size
    return (
        (Event("Scaled", f"from {was} to {count(size, 'rank')}", warning=False),)
        if was != size
        else ()
    )


def _finished(stored: Mapping[str, Condition], now: datetime) -> Condition | None:
    """The condition Finished, with the message and the time of Failed or Succeeded; None while
    neither of these is True.

    It is derived from them in each pass, so that a job which ended under an older operator, without
    this condition, gets it too.
    """
    ends = (stored.get(each.__name__) for each in (reasons.Failed, reasons.Succeeded))
    end = next((each for each in ends if each and each.status == "True"), None)
    if end is None:
        return None
    reason = (
        reasons.Finished.Failed
        if end.type == reasons.Failed.__name__
        else reasons.Finished.Succeeded
    )
    return _condition(end, Fact(reason, end.message), end.observed_generation, timestamp(now))


def _condition(old: Condition | None, fact: Fact, generation: int, now: str) -> Condition:
    status = str(fact.reason.entry.status)
    same = old is not None and old.status == status
    since = old.last_transition_time if old is not None and same else now
    return Condition(
        type=fact.reason.condition,
        status=status,
        reason=fact.reason.name,
        message=shorten(fact.message),
        last_transition_time=since,
        observed_generation=generation,
    )
