"""What the status says: conditions for programs, one phase for people, events for what has just changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from dijob.api.status import Condition, Status, stamp
from dijob.core.actions import Event
from dijob.names import Condition as Type
from dijob.names import Phase


@dataclass(frozen=True)
class Fact:
    """One condition as this pass sees it."""

    type: Type
    status: bool
    reason: str
    message: str = ""


# Facts whose becoming true is good news; every other change that a person must know of is a warning.
GOOD_NEWS = (Type.RUNNING, Type.SUCCEEDED)
# Facts of which each change is told, and reasons that are told when they come up.
TOLD = (
    Type.FAILED,
    Type.INVALID,
    Type.SUSPENDED,
    Type.LAUNCHER_BYPASSED,
    Type.SPEC_WARNING,
    Type.PAUSED,
    Type.CHANGES_REFUSED,
)
# Of these, who asked for it himself.
ASKED_FOR = (Type.SUSPENDED, Type.PAUSED)
TOLD_WHEN_FALSE = (
    Type.PODS_CREATED,
    Type.ADDRESSES_READY,
    Type.RUNNING,
    Type.PEERS_READY,
    Type.SERVICE_READY,
    Type.BROKER_READY,
)
# The ordinary ways of not being there yet.
QUIET_REASONS = (
    "Creating",
    "Gathering",
    "Publishing",
    "Starting",
    "Finished",
    "Renewing",
    "WaitingForOldPod",
    "Suspended",
)


def is_true(status: Status, type_: Type) -> bool:
    """Whether the stored status has this condition as True."""
    return any(c.type == type_ and c.status == "True" for c in status.conditions)


def ended(status: Status) -> bool:
    """Whether the job has reached its end; nothing but clean-up happens after it."""
    return is_true(status, Type.SUCCEEDED) or is_true(status, Type.FAILED)


def phase(status: Status) -> Phase:
    """The phase that the conditions add up to."""
    for type_, word in (
        (Type.FAILED, Phase.FAILED),
        (Type.SUCCEEDED, Phase.SUCCEEDED),
        (Type.SUSPENDED, Phase.SUSPENDED),
        (Type.RUNNING, Phase.RUNNING),
        (Type.ADDRESSES_READY, Phase.STARTING),
    ):
        if is_true(status, type_):
            return word
    return Phase.PENDING


def message(status: Status) -> str:
    """The sentence that matters most now: why it ended, what is wrong, or what it waits for."""
    told = {c.type: c for c in status.conditions}
    for type_, bad in (
        (Type.FAILED, "True"),
        (Type.SUCCEEDED, "True"),
        (Type.INVALID, "True"),
        (Type.CHANGES_REFUSED, "True"),
        (Type.PODS_CREATED, "False"),
        (Type.ADDRESSES_READY, "False"),
        *([(Type.PEERS_READY, "False")] if is_true(status, Type.RUNNING) else []),
    ):
        condition = told.get(type_)
        # That pods are being created says less than why.
        if condition and condition.status == bad and (type_, condition.reason) != (Type.PODS_CREATED, "Creating"):
            return condition.message
    running = told.get(Type.RUNNING)
    return running.message if running else ""


def urgent(old: Status, new: Status) -> bool:
    """Whether a change must be written at once: the first sight of a job, Running, its end, a list that begins or has
    died, a pause, a failure (the pod that shows it is not deleted before)."""
    begun = is_true(new, Type.RUNNING) and not is_true(old, Type.RUNNING)
    begun = begun or is_true(new, Type.PAUSED) != is_true(old, Type.PAUSED)
    begun = begun or old.suspend_time != new.suspend_time
    begun = begun or old.epoch != new.epoch
    lost = old.last_renewal != new.last_renewal or old.restarts != new.restarts or old.given_back != new.given_back
    return not old.phase or begun or lost or ended(new) != ended(old)


def conclude(status: Status, facts: Iterable[Fact], generation: int, now: datetime) -> Status:
    """The status with the facts as its conditions. Conditions that no fact is about stay as they were."""
    kept = {condition.type: condition for condition in status.conditions}
    for fact in facts:
        kept[fact.type.value] = _condition(kept.get(fact.type.value), fact, generation, now)
    kept.pop(Type.FINISHED.value, None)
    if finished := _finished(kept, now):
        kept[finished.type] = finished
    order = {type_.value: number for number, type_ in enumerate(Type)}
    conditions = tuple(sorted(kept.values(), key=lambda c: order.get(c.type, len(order))))
    status = status.model_copy(update={"conditions": conditions, "observed_generation": generation})
    return status.model_copy(update={"phase": phase(status).value, "message": message(status)})


def events(old: Status, new: Status) -> tuple[Event, ...]:
    """What to tell in `kubectl describe`: each condition whose status or reason has changed in a way that matters."""
    before = {c.type: (c.status, c.reason) for c in old.conditions}
    changed = (c for c in new.conditions if before.get(c.type) != (c.status, c.reason))
    return tuple(event for condition in changed if (event := _event(condition)))


def _finished(told: Mapping[str, Condition], now: datetime) -> Condition | None:
    """The condition that is True at either end, with the words and the time of that end; None before it.

    Made from the two in each pass: a job that ended under an operator that did not know it gets it too.
    """
    ends = (told.get(type_.value) for type_ in (Type.FAILED, Type.SUCCEEDED))
    end = next((each for each in ends if each and each.status == "True"), None)
    if end is None:
        return None
    reason = "Failed" if end.type == Type.FAILED else "Succeeded"
    return _condition(end, Fact(Type.FINISHED, True, reason, end.message), end.observed_generation, now)


def _condition(old: Condition | None, fact: Fact, generation: int, now: datetime) -> Condition:
    status = "True" if fact.status else "False"
    same = old is not None and old.status == status
    return Condition(
        type=fact.type.value,
        status=status,
        reason=fact.reason,
        message=fact.message,
        last_transition_time=old.last_transition_time if old is not None and same else stamp(now),
        observed_generation=generation,
    )


def _event(condition: Condition) -> Event | None:
    type_, true = condition.type, condition.status == "True"
    if true and type_ in GOOD_NEWS:
        return Event(type_, condition.message or f"the job is {type_}", warning=False)
    if true and type_ in TOLD:
        return Event(condition.reason, condition.message, warning=type_ not in ASKED_FOR)
    if not true and type_ in TOLD_WHEN_FALSE and condition.reason not in QUIET_REASONS:
        return Event(condition.reason, condition.message)
    return None
