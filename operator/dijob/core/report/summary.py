"""Turns the facts of a reconciliation into the status: conditions for programs, a phase and a
message for people, and events for changes. Also decides how urgently the status must be written.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import Enum, auto

from dijob import reasons
from dijob.api.status import Condition, Status, format_time, parse_time
from dijob.core.actions import Event
from dijob.core.facts import Fact, find_condition, is_true
from dijob.core.members import format_count
from dijob.core.observed.grouping import shorten_message
from dijob.core.report.health import health_fact
from dijob.names import Phase
from dijob.reasons import EventType, ReasonKind

# `kubectl get` shows status.message in a column. The conditions have the full sentences.
MESSAGE_LIMIT = 200
# Conditions about objects that the ranks share. While one of these objects is missing, either the
# pods or the programs cannot start.
SHARED = (
    reasons.Isolated,
    reasons.GangScheduled,
    reasons.ServiceReady,
    reasons.BrokerReady,
)
# Conditions that are derived from all others, and absent if a job is healthy.
HEALTH = (reasons.Reconciling, reasons.Stalled)
# These texts precede the message of a job that has succeeded, but whose result may be wrong.
BYPASSED = "each pod may train alone, see LauncherBypassed"
OTHERWISE = "the program's arguments conflict with the job, see SpecWarning"


def job_phase(status: Status) -> Phase:
    """Return the phase that belongs to the first condition that is True."""
    # In descending order of precedence: a failed job is Failed even while it is being deleted.
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


def job_message(status: Status) -> str:
    """Return the sentence that is currently most important: why the job ended, what is wrong, or
    what the job is doing. It has at most MESSAGE_LIMIT characters.
    """
    sentence = _main_sentence(status)
    doubts = [] if is_true(status, reasons.Failed) else _list_doubts(status)
    deleted = find_condition(status, reasons.Terminating)
    return shorten_message(
        "; ".join([*([deleted.message] if deleted else []), *doubts, sentence]), MESSAGE_LIMIT
    )


def _list_doubts(status: Status) -> Iterator[str]:
    """Yield the reasons to doubt a good result."""
    if is_true(status, reasons.LauncherBypassed):
        yield BYPASSED
    warning = find_condition(status, reasons.SpecWarning)
    if warning and warning.reason == reasons.SpecWarning.ProgramSaysOtherwise.name:
        yield OTHERWISE


def _main_sentence(status: Status) -> str:
    # In order of significance: the end, the user's requests, problems, and what a starting job
    # waits for. The last group starts with the pods and ends with the peers.
    for type_, bad in (
        (reasons.Failed, "True"),
        (reasons.Succeeded, "True"),
        (reasons.Paused, "True"),
        (reasons.Invalid, "True"),
        (reasons.ChangesRefused, "True"),
        (reasons.PodsCreated, "False"),
        *((shared, "False") for shared in SHARED if _is_problem(find_condition(status, shared))),
        (reasons.AddressesReady, "False"),
        *([(reasons.PeersReady, "False")] if is_true(status, reasons.Running) else []),
        (reasons.ProgressStalled, "True"),
    ):
        condition = find_condition(status, type_)
        # "2 of 3 pods exist" is less informative than AddressesReady, which says why.
        creating = (
            type_ is reasons.PodsCreated
            and condition
            and condition.reason == reasons.PodsCreated.Creating.name
        )
        if condition and condition.status == bad and not creating:
            return condition.message
    running = find_condition(status, reasons.Running)
    return running.message if running else ""


def _is_problem(condition: Condition | None) -> bool:
    reason = reasons.find_reason(condition.type, condition.reason) if condition else None
    return reason is not None and reason.entry.kind is ReasonKind.PROBLEM


class Pressure(Enum):
    """How soon a status change must be written. When many jobs start at the same time, the control
    plane limits how fast they start. So a change that is not urgent is written later, together
    with the changes that follow it (docs/decisions/022).
    """

    AT_ONCE = auto()
    SOON = auto()  # the first status of a job, a problem that appears or disappears, a success
    RARELY = auto()  # progress: counts, and the ranks that the job still waits for


def write_pressure(old: Status, new: Status) -> Pressure:
    """Return how soon the change from one status to the next must be written."""
    if _is_urgent(old, new):
        return Pressure.AT_ONCE
    # The first status waits, because most jobs are running within seconds and then need only one
    # write. If something is wrong from the start, the user must see it at once.
    first = not old.phase
    if first and (reported_problems(new) or _waits_for_old_pods(new)):
        return Pressure.AT_ONCE
    return Pressure.SOON if first or _is_news(old, new) else Pressure.RARELY


def _waits_for_old_pods(status: Status) -> bool:
    """Whether pods of a deleted job with the same name are still terminating."""
    created = find_condition(status, reasons.PodsCreated)
    return created is not None and created.reason == reasons.PodsCreated.WaitingForOldPod.name


def reported_problems(status: Status) -> frozenset[tuple[str, str, str]]:
    """Return the type, reason and message of each condition that reports a problem. The message is
    included because it names the ranks.
    """
    return frozenset(
        (condition.type, condition.reason, condition.message)
        for condition in status.conditions
        if _is_problem(condition)
    )


def _is_news(old: Status, new: Status) -> bool:
    """Whether a user is probably waiting for the change: a problem that appears or disappears, or a
    success. A success that is not stored yet would be lost with its pod.
    """
    together = is_true(old, reasons.PeersReady) != is_true(new, reasons.PeersReady)
    succeeded = old.succeeded_ranks != new.succeeded_ranks
    return together or succeeded or reported_problems(old) != reported_problems(new)


def _is_urgent(old: Status, new: Status) -> bool:
    """Whether a change must be written at once.

    This is the case if the job starts to run, ends, is paused or is suspended. It is also the case
    if the peer list becomes active or stale, or if a failure is counted. The next action depends on
    these changes. For example, a failed pod is deleted only after its failure is stored.
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


def apply_facts(status: Status, facts: Iterable[Fact], generation: int, now: datetime) -> Status:
    """Return the status with the facts as its conditions. Other conditions stay as they are."""
    kept = {condition.type: condition for condition in status.conditions}
    # The first status is written some time after the start, but a condition that is False in it has
    # been False since the start.
    first = not status.phase
    for fact in facts:
        type_ = fact.reason.condition
        since = status.start_time if first and not fact.reason.entry.status else ""
        kept[type_] = _build_condition(kept.get(type_), fact, generation, since or format_time(now))
    kept.pop(reasons.Finished.__name__, None)
    if finished := _finished_condition(kept, now):
        kept[finished.type] = finished
    health = {each.__name__: kept.pop(each.__name__, None) for each in HEALTH}
    status = status.model_copy(
        update={"conditions": tuple(kept.values()), "observed_generation": generation}
    )
    status = status.model_copy(
        update={"phase": job_phase(status).value, "message": job_message(status)}
    )
    if found := health_fact(status):
        fact, cause = found
        # If the cause is True, the health condition gets the transition time of the cause.
        old = cause if cause and cause.status == "True" else health[fact.reason.condition]
        made = _build_condition(old, fact, generation, format_time(now))
        kept[made.type] = made
    order = {each.__name__: number for number, each in enumerate(reasons.CATALOGUE)}
    conditions = tuple(sorted(kept.values(), key=lambda c: order.get(c.type, len(order))))
    return status.model_copy(update={"conditions": conditions})


def events(old: Status, new: Status) -> tuple[Event, ...]:
    """Return the events for a status change: one for each condition whose new reason has an event
    in the catalog. Scaled reports a new size of the peer list of a running job. SizeIgnored reports
    that the size of a job was changed after the job had ended.
    """
    before = {c.type: c for c in old.conditions}
    changed = [
        event
        for condition in new.conditions
        if (event := _condition_event(old, before.get(condition.type), condition))
    ]
    return (*changed, *_scaled_events(old, new), *_ignored_events(old, new))


def _condition_event(status: Status, before: Condition | None, now: Condition) -> Event | None:
    """Return the event about the change of a condition; None if there is none. `before` and `now`
    are the old and the new condition, and `status` is the old status.
    """
    if before and (before.status, before.reason) == (now.status, now.reason):
        return None
    reason = reasons.find_reason(now.type, now.reason)
    if reason is None or reason.entry.event is EventType.NONE:
        return None
    # At the first start, the Running event already says that all ranks are Ready.
    if reason is reasons.PeersReady.AllRanksReady and not is_true(status, reasons.Running):
        return None
    warning = reason.entry.event is EventType.WARNING
    good = reason.entry.kind is ReasonKind.GOOD and reason.entry.status
    text = now.message + (_time_false(before, now) if good else "")
    return Event(
        now.type if good else now.reason, text or f"the job is {now.type}", warning=warning
    )


def _time_false(before: Condition | None, now: Condition) -> str:
    """Return the end of an event's message, which says how long the condition was False."""
    start = parse_time(before.last_transition_time) if before and before.status == "False" else None
    end = parse_time(now.last_transition_time)
    return f", after {(end - start).total_seconds():.0f} s" if start and end else ""


def _scaled_events(old: Status, new: Status) -> tuple[Event, ...]:
    if not (old.address_list and new.address_list and is_true(old, reasons.Running)):
        return ()
    was, size = old.address_list.size, new.address_list.size
    return (
        (Event("Scaled", f"from {was} to {format_count(size, 'rank')}", warning=False),)
        if was != size
        else ()
    )


def _ignored_events(old: Status, new: Status) -> tuple[Event, ...]:
    """Return the event which reports that a job's size was changed after the job had ended.

    The API server accepts this change. If it rejected the change, autoscalers would repeat it again
    and again (docs/decisions/016).
    """
    if not old.ended or not old.desired or old.desired == new.desired:
        return ()
    text = f"the job has ended ({old.phase}), so the change of its size has no effect"
    return (Event("SizeIgnored", f"{text} (from {old.desired} to {new.desired})", warning=False),)


def _finished_condition(stored: Mapping[str, Condition], now: datetime) -> Condition | None:
    """Return the condition Finished, with the message and the time of Failed or Succeeded; None
    while neither of these is True.

    Each reconciliation derives it again, so a job that ended under an older operator without this
    condition gets it, too.
    """
    # Finished exists so that `kubectl wait` can wait for one condition, however the job ends.
    ends = (stored.get(each.__name__) for each in (reasons.Failed, reasons.Succeeded))
    end = next((each for each in ends if each and each.status == "True"), None)
    if end is None:
        return None
    reason = (
        reasons.Finished.Failed
        if end.type == reasons.Failed.__name__
        else reasons.Finished.Succeeded
    )
    return _build_condition(
        end, Fact(reason, end.message), end.observed_generation, format_time(now)
    )


def _build_condition(old: Condition | None, fact: Fact, generation: int, now: str) -> Condition:
    status = str(fact.reason.entry.status)
    # Kubernetes' convention: the time is when the status last changed, not when the reason did.
    same = old is not None and old.status == status
    since = old.last_transition_time if old is not None and same else now
    return Condition(
        type=fact.reason.condition,
        status=status,
        reason=fact.reason.name,
        message=shorten_message(fact.message),
        last_transition_time=since,
        observed_generation=generation,
    )
