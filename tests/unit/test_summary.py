"""Conditions, the phase that they add up to, and the events that tell what has just changed."""

from typing import Any

import pytest
from dijob.api.status import Condition, Renewal, Status
from dijob.core.actions import Event
from dijob.core.report.summary import Fact, conclude, ended, events, is_true, phase, urgent
from dijob.names import Condition as Type
from dijob.names import Phase
from unit.builders import NOW, later

OLD, NEW = "2026-05-04T12:00:00Z", "2026-05-04T12:00:09Z"


def having(*facts: Fact, before: Status | None = None, generation: int = 1, seconds: float = 0) -> Status:
    return conclude(before or Status(), facts, generation, later(seconds))


def yes(type_: Type, reason: str = "Good", message: str = "") -> Fact:
    return Fact(type_, True, reason, message)


def no(type_: Type, reason: str = "Bad", message: str = "") -> Fact:
    return Fact(type_, False, reason, message)


def found(status: Status, type_: Type) -> Condition:
    return next(c for c in status.conditions if c.type == type_)


PHASES: dict[str, tuple[tuple[Fact, ...], Phase]] = {
    "nothing said": ((), Phase.PENDING),
    "pods": ((yes(Type.PODS_CREATED), no(Type.ADDRESSES_READY)), Phase.PENDING),
    "addresses": ((yes(Type.ADDRESSES_READY), no(Type.RUNNING)), Phase.STARTING),
    "running": ((yes(Type.ADDRESSES_READY), yes(Type.RUNNING)), Phase.RUNNING),
    "succeeded": ((no(Type.RUNNING), yes(Type.SUCCEEDED), yes(Type.ADDRESSES_READY)), Phase.SUCCEEDED),
    "failed": ((no(Type.RUNNING), yes(Type.FAILED), yes(Type.ADDRESSES_READY)), Phase.FAILED),
    "invalid beside what runs": ((yes(Type.INVALID), yes(Type.RUNNING)), Phase.RUNNING),
}


@pytest.mark.parametrize(("facts", "word"), PHASES.values(), ids=PHASES)
def test_the_phase_is_what_the_conditions_add_up_to(facts: tuple[Fact, ...], word: Phase) -> None:
    status = having(*facts)
    assert (phase(status), status.phase) == (word, word.value)
    assert ended(status) is (word in (Phase.SUCCEEDED, Phase.FAILED))


def ends(status: Status) -> list[tuple[str, str, str, str]]:
    """The condition Finished, where it is there: its status, reason, message and time."""
    found = (c for c in status.conditions if c.type == "Finished")
    return [(c.status, c.reason, c.message, c.last_transition_time) for c in found]


FINISHED: dict[str, tuple[tuple[Fact, ...], list[tuple[str, str, str, str]]]] = {
    "on its way": ((no(Type.RUNNING),), []),
    "running": ((yes(Type.RUNNING),), []),
    "invalid": ((yes(Type.INVALID),), []),
    "succeeded": ((yes(Type.SUCCEEDED, "AllRanksSucceeded", "all 3"),), [("True", "Succeeded", "all 3", OLD)]),
    "failed": ((yes(Type.FAILED, "DeadlineExceeded", "too late"),), [("True", "Failed", "too late", OLD)]),
    "forged as both": ((yes(Type.SUCCEEDED), yes(Type.FAILED, "F", "no")), [("True", "Failed", "no", OLD)]),
}


@pytest.mark.parametrize(("facts", "expected"), FINISHED.values(), ids=FINISHED)
def test_what_has_ended_well_or_badly_is_finished(
    facts: tuple[Fact, ...], expected: list[tuple[str, str, str, str]]
) -> None:
    assert ends(having(*facts)) == expected


@pytest.mark.parametrize("end", [Type.SUCCEEDED, Type.FAILED])
def test_a_job_that_ended_before_the_condition_existed_gets_it_without_an_event(end: Type) -> None:
    old = Status(conditions=(Condition(type=end, status="True", reason="R", message="why", last_transition_time=OLD),))
    new = having(before=old, generation=7, seconds=9)
    assert ends(new) == [("True", end.value, "why", OLD)]
    assert events(old, new) == ()
    assert having(before=new, generation=7, seconds=99) == new


def test_finished_is_not_left_standing_where_nothing_has_ended() -> None:
    forged = Status(conditions=(Condition(type="Finished", status="True", reason="Succeeded"),))
    assert ends(having(no(Type.RUNNING), before=forged)) == []


def test_a_condition_has_the_shape_of_metav1() -> None:
    assert found(having(yes(Type.RUNNING, "AllRanksReady", "all 3"), generation=4), Type.RUNNING) == Condition(
        type="Running",
        status="True",
        reason="AllRanksReady",
        message="all 3",
        last_transition_time=OLD,
        observed_generation=4,
    )


@pytest.mark.parametrize(
    ("fact", "time"),
    [(yes(Type.RUNNING, "Other", "words"), OLD), (no(Type.RUNNING), NEW)],
    ids=["other-words", "other-status"],
)
def test_the_transition_time_moves_with_the_status_alone(fact: Fact, time: str) -> None:
    after = having(fact, before=having(yes(Type.RUNNING)), seconds=9)
    assert found(after, Type.RUNNING).last_transition_time == time
    assert found(after, Type.RUNNING).reason == fact.reason


def test_conditions_that_no_fact_is_about_stay_and_the_order_is_fixed() -> None:
    before = having(yes(Type.SERVICE_READY), yes(Type.RUNNING), no(Type.PODS_CREATED))
    after = having(yes(Type.ADDRESSES_READY), before=before, seconds=9)
    assert [c.type for c in after.conditions] == ["PodsCreated", "AddressesReady", "Running", "ServiceReady"]
    assert is_true(after, Type.SERVICE_READY)
    assert not is_true(after, Type.PODS_CREATED)


def test_conditions_of_other_versions_are_kept_at_the_end() -> None:
    foreign = Condition(type="FromTheFuture", status="True")
    after = having(yes(Type.RUNNING), before=Status(conditions=(foreign,)))
    assert [c.type for c in after.conditions] == ["Running", "FromTheFuture"]


def test_concluding_the_same_twice_changes_nothing() -> None:
    facts = (yes(Type.PODS_CREATED), no(Type.RUNNING, "Starting", "waits"))
    once = having(*facts)
    assert having(*facts, before=once, seconds=99) == once


def told(before: tuple[Fact, ...], after: tuple[Fact, ...]) -> tuple[Event, ...]:
    old = having(*before)
    return events(old, having(*after, before=old, seconds=1))


EVENTS: dict[str, tuple[tuple[Fact, ...], tuple[Fact, ...], tuple[Event, ...]]] = {
    "running": (
        (no(Type.RUNNING, "Starting"),),
        (yes(Type.RUNNING, "R", "all run"),),
        (Event("Running", "all run", False),),
    ),
    "succeeded": ((), (yes(Type.SUCCEEDED, "S", "all 0"),), (Event("Succeeded", "all 0", False),)),
    "failed": ((), (yes(Type.FAILED, "BackoffLimitExceeded", "4"),), (Event("BackoffLimitExceeded", "4"),)),
    "invalid": ((), (yes(Type.INVALID, "SpecInvalid", "x"),), (Event("SpecInvalid", "x"),)),
    "valid again": ((yes(Type.INVALID, "SpecInvalid"),), (no(Type.INVALID, "Valid"),), ()),
    "bypassed": ((), (yes(Type.LAUNCHER_BYPASSED, "L", "x"),), (Event("L", "x"),)),
    "a pod refused": (
        (no(Type.PODS_CREATED, "Creating"),),
        (no(Type.PODS_CREATED, "PodRejected", "x"),),
        (Event("PodRejected", "x"),),
    ),
    "a list dies": (
        (yes(Type.ADDRESSES_READY, "P"),),
        (no(Type.ADDRESSES_READY, "PodLost", "x"),),
        (Event("PodLost", "x"),),
    ),
    "service name taken": ((), (no(Type.SERVICE_READY, "ServiceNameTaken", "x"),), (Event("ServiceNameTaken", "x"),)),
    "pods created": ((no(Type.PODS_CREATED, "Creating"),), (yes(Type.PODS_CREATED, "AllCreated"),), ()),
    "only the words differ": (
        (no(Type.PODS_CREATED, "PodRejected", "a"),),
        (no(Type.PODS_CREATED, "PodRejected", "b"),),
        (),
    ),
    "runs no more": ((yes(Type.RUNNING),), (no(Type.RUNNING, "Finished"),), ()),
    **{
        f"quiet: {reason}": ((), (no(type_, reason),), ())
        for type_, reason in (
            (Type.PODS_CREATED, "Creating"),
            (Type.PODS_CREATED, "WaitingForOldPod"),
            (Type.ADDRESSES_READY, "Gathering"),
            (Type.RUNNING, "Starting"),
            (Type.RUNNING, "Renewing"),
        )
    },
}


@pytest.mark.parametrize(("before", "after", "expected"), EVENTS.values(), ids=EVENTS)
def test_what_is_told(before: tuple[Fact, ...], after: tuple[Fact, ...], expected: tuple[Event, ...]) -> None:
    assert told(before, after) == expected
    assert told(after, after) == ()


def test_a_reason_that_turns_up_again_is_told_again() -> None:
    assert len(told((no(Type.RUNNING, "Renewing"),), (yes(Type.RUNNING),))) == 1


SEEN = having(no(Type.RUNNING))


@pytest.mark.parametrize(
    ("old", "new", "at_once"),
    [
        (Status(), SEEN, True),
        (SEEN, SEEN.model_copy(update={"ready_replicas": 2}), False),
        (SEEN, having(yes(Type.ADDRESSES_READY), before=SEEN), False),
        (SEEN, SEEN.model_copy(update={"last_renewal": Renewal(epoch=1)}), True),
        (SEEN, having(yes(Type.RUNNING), before=SEEN), True),
        (SEEN, having(yes(Type.SUCCEEDED), before=SEEN), True),
        (SEEN, having(yes(Type.FAILED), before=SEEN), True),
    ],
    ids=["first-sight", "count", "step-on-the-way", "list-died", "running", "succeeded", "failed"],
)
def test_what_is_written_at_once(old: Status, new: Status, at_once: bool) -> None:
    assert urgent(old, new) is at_once


def test_a_status_survives_being_stored() -> None:
    status = having(yes(Type.RUNNING, "R", "words"), no(Type.PODS_CREATED))
    stored: dict[str, Any] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert Status.model_validate(stored) == status
    assert stored["conditions"][0]["lastTransitionTime"] == OLD == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
