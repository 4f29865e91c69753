"""Conditions, the phase that they add up to, and the events that tell what has just changed."""

from typing import Any

import pytest
from dijob.api.status import Condition, Renewal, Status
from dijob.core.actions import Event
from dijob.core.report.summary import (
    Fact,
    Pressure,
    conclude,
    ended,
    events,
    is_true,
    phase,
    pressure,
)
from dijob.names import Phase
from dijob.reasons import (
    AddressesReady,
    Failed,
    Invalid,
    LauncherBypassed,
    Paused,
    PeersReady,
    PodsCreated,
    Running,
    ServiceReady,
    SpecWarning,
    Succeeded,
)
from unit.builders import NOW, later

OLD, NEW = "2026-05-04T12:00:00Z", "2026-05-04T12:00:09Z"


def having(
    *facts: Fact, before: Status | None = None, generation: int = 1, seconds: float = 0
) -> Status:
    return conclude(before or Status(), facts, generation, later(seconds))


def found(status: Status, type_: str) -> Condition:
    return next(c for c in status.conditions if c.type == type_)


PHASES: dict[str, tuple[tuple[Fact, ...], Phase]] = {
    "nothing said": ((), Phase.PENDING),
    "pods": ((Fact(PodsCreated.AllCreated), Fact(AddressesReady.Gathering)), Phase.PENDING),
    "addresses": ((Fact(AddressesReady.Published), Fact(Running.Starting)), Phase.STARTING),
    "running": ((Fact(AddressesReady.Published), Fact(Running.Begun)), Phase.RUNNING),
    "succeeded": (
        (Fact(Running.Starting), Fact(Succeeded.AllRanksSucceeded), Fact(AddressesReady.Published)),
        Phase.SUCCEEDED,
    ),
    "failed": (
        (Fact(Running.Starting), Fact(Failed.BackoffLimitExceeded), Fact(AddressesReady.Published)),
        Phase.FAILED,
    ),
    "invalid beside what runs": (
        (Fact(Invalid.SpecInvalid), Fact(Running.Begun)),
        Phase.RUNNING,
    ),
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
    "on its way": ((Fact(Running.Starting),), []),
    "running": ((Fact(Running.Begun),), []),
    "invalid": ((Fact(Invalid.SpecInvalid),), []),
    "succeeded": (
        (Fact(Succeeded.AllRanksSucceeded, "all 3"),),
        [("True", "Succeeded", "all 3", OLD)],
    ),
    "failed": ((Fact(Failed.DeadlineExceeded, "too late"),), [("True", "Failed", "too late", OLD)]),
    "forged as both": (
        (Fact(Succeeded.AllRanksSucceeded), Fact(Failed.BackoffLimitExceeded, "no")),
        [("True", "Failed", "no", OLD)],
    ),
}


@pytest.mark.parametrize(("facts", "expected"), FINISHED.values(), ids=FINISHED)
def test_what_has_ended_well_or_badly_is_finished(
    facts: tuple[Fact, ...], expected: list[tuple[str, str, str, str]]
) -> None:
    assert ends(having(*facts)) == expected


@pytest.mark.parametrize("end", ["Succeeded", "Failed"])
def test_a_job_that_ended_before_the_condition_existed_gets_it_without_an_event(end: str) -> None:
    old = Status(
        conditions=(
            Condition(type=end, status="True", reason="R", message="why", last_transition_time=OLD),
        )
    )
    new = having(before=old, generation=7, seconds=9)
    assert ends(new) == [("True", end, "why", OLD)]
    assert events(old, new) == ()
    assert having(before=new, generation=7, seconds=99) == new


def test_finished_is_not_left_standing_where_nothing_has_ended() -> None:
    forged = Status(conditions=(Condition(type="Finished", status="True", reason="Succeeded"),))
    assert ends(having(Fact(Running.Starting), before=forged)) == []


def test_a_condition_has_the_shape_of_metav1() -> None:
    assert found(having(Fact(Running.Begun, "all 3"), generation=4), "Running") == Condition(
        type="Running",
        status="True",
        reason="Begun",
        message="all 3",
        last_transition_time=OLD,
        observed_generation=4,
    )


@pytest.mark.parametrize(
    ("fact", "time"),
    [(Fact(Running.Begun, "words"), OLD), (Fact(Running.Starting), NEW)],
    ids=["other-words", "other-status"],
)
def test_the_transition_time_moves_with_the_status_alone(fact: Fact, time: str) -> None:
    after = having(fact, before=having(Fact(Running.Begun)), seconds=9)
    assert found(after, "Running").last_transition_time == time
    assert found(after, "Running").reason == fact.reason.name


def test_conditions_that_no_fact_is_about_stay_and_the_order_is_fixed() -> None:
    before = having(Fact(ServiceReady.Created), Fact(Running.Begun), Fact(PodsCreated.Creating))
    after = having(Fact(AddressesReady.Published), before=before, seconds=9)
    assert [c.type for c in after.conditions] == [
        "PodsCreated",
        "AddressesReady",
        "Running",
        "ServiceReady",
    ]
    assert is_true(after, ServiceReady)
    assert not is_true(after, PodsCreated)


def test_conditions_of_other_versions_are_kept_at_the_end() -> None:
    foreign = Condition(type="FromTheFuture", status="True")
    after = having(Fact(Running.Begun), before=Status(conditions=(foreign,)))
    assert [c.type for c in after.conditions] == ["Running", "FromTheFuture"]


def test_concluding_the_same_twice_changes_nothing() -> None:
    facts = (Fact(PodsCreated.AllCreated), Fact(Running.Starting, "waits"))
    once = having(*facts)
    assert having(*facts, before=once, seconds=99) == once


def told(before: tuple[Fact, ...], after: tuple[Fact, ...]) -> tuple[Event, ...]:
    old = having(*before)
    return events(old, having(*after, before=old, seconds=1))


EVENTS: dict[str, tuple[tuple[Fact, ...], tuple[Fact, ...], tuple[Event, ...]]] = {
    "running": (
        (Fact(Running.Starting),),
        (Fact(Running.Begun, "all run"),),
        (Event("Running", "all run, after 1 s", False),),
    ),
    "succeeded": (
        (),
        (Fact(Succeeded.AllRanksSucceeded, "all 0"),),
        (Event("Succeeded", "all 0", False),),
    ),
    "failed": (
        (),
        (Fact(Failed.BackoffLimitExceeded, "4"),),
        (Event("BackoffLimitExceeded", "4"),),
    ),
    "invalid": ((), (Fact(Invalid.SpecInvalid, "x"),), (Event("SpecInvalid", "x"),)),
    "valid again": ((Fact(Invalid.SpecInvalid),), (Fact(Invalid.Valid),), ()),
    "bypassed": (
        (),
        (Fact(LauncherBypassed.LauncherBypassed, "x"),),
        (Event("LauncherBypassed", "x"),),
    ),
    "a pod refused": (
        (Fact(PodsCreated.Creating),),
        (Fact(PodsCreated.PodRejected, "x"),),
        (Event("PodRejected", "x"),),
    ),
    "a list dies": (
        (Fact(AddressesReady.Published),),
        (Fact(AddressesReady.PodLost, "x"),),
        (Event("PodLost", "x"),),
    ),
    "service name taken": (
        (),
        (Fact(ServiceReady.ServiceNameTaken, "x"),),
        (Event("ServiceNameTaken", "x"),),
    ),
    "pods created": ((Fact(PodsCreated.Creating),), (Fact(PodsCreated.AllCreated),), ()),
    "only the words differ": (
        (Fact(PodsCreated.PodRejected, "a"),),
        (Fact(PodsCreated.PodRejected, "b"),),
        (),
    ),
    "runs no more": ((Fact(Running.Begun),), (Fact(Running.Finished),), ()),
    **{
        f"quiet: {reason}": ((), (Fact(reason),), ())
        for reason in (
            PodsCreated.Creating,
            PodsCreated.WaitingForOldPod,
            AddressesReady.Gathering,
            AddressesReady.BrokerNotReady,
            AddressesReady.Scaled,
            Running.Starting,
            Running.Renewing,
            PeersReady.Starting,
        )
    },
}


@pytest.mark.parametrize(("before", "after", "expected"), EVENTS.values(), ids=EVENTS)
def test_what_is_told(
    before: tuple[Fact, ...], after: tuple[Fact, ...], expected: tuple[Event, ...]
) -> None:
    assert told(before, after) == expected
    assert told(after, after) == ()


def test_a_reason_that_turns_up_again_is_told_again() -> None:
    assert len(told((Fact(Running.Renewing),), (Fact(Running.Begun),))) == 1


SEEN = having(Fact(Running.Starting))


@pytest.mark.parametrize(
    ("old", "new", "soon"),
    [
        (Status(), SEEN, Pressure.SOON),
        (Status(), having(Fact(PodsCreated.PodRejected)), Pressure.AT_ONCE),
        (Status(), having(Fact(PodsCreated.WaitingForOldPod)), Pressure.AT_ONCE),
        (SEEN, SEEN.model_copy(update={"ready_replicas": 2}), Pressure.RARELY),
        (SEEN, having(Fact(AddressesReady.Published), before=SEEN), Pressure.RARELY),
        (SEEN, SEEN.model_copy(update={"succeeded_ranks": "0"}), Pressure.SOON),
        (SEEN, having(Fact(PeersReady.AllRanksReady), before=SEEN), Pressure.SOON),
        (SEEN, having(Fact(AddressesReady.AddressMissing), before=SEEN), Pressure.SOON),
        (having(Fact(AddressesReady.AddressMissing), before=SEEN), SEEN, Pressure.SOON),
        (
            SEEN,
            SEEN.model_copy(update={"last_renewal": Renewal(list_number=1)}),
            Pressure.AT_ONCE,
        ),
        (SEEN, having(Fact(Running.Begun), before=SEEN), Pressure.AT_ONCE),
        (SEEN, having(Fact(Succeeded.AllRanksSucceeded), before=SEEN), Pressure.AT_ONCE),
        (SEEN, having(Fact(Failed.BackoffLimitExceeded), before=SEEN), Pressure.AT_ONCE),
    ],
    ids=[
        "first-sight",
        "first-sight-of-a-problem",
        "applied-while-the-old-one-ends",
        "count",
        "step-on-the-way",
        "success",
        "together-again",
        "problem",
        "problem-that-is-over",
        "list-died",
        "running",
        "succeeded",
        "failed",
    ],
)
def test_how_soon_a_change_is_written(old: Status, new: Status, soon: Pressure) -> None:
    assert pressure(old, new) is soon


MESSAGES: dict[str, tuple[tuple[Fact, ...], str]] = {
    "runs": ((Fact(Running.Begun, "all 3 ranks run"),), "all 3 ranks run"),
    "bypassed": (
        (
            Fact(Running.Begun, "all 3 ranks run"),
            Fact(LauncherBypassed.LauncherBypassed, "long"),
        ),
        "each pod may train alone, see LauncherBypassed; all 3 ranks run",
    ),
    "bypassed, and succeeded": (
        (
            Fact(Succeeded.AllRanksSucceeded, "all 3 ranks exited 0"),
            Fact(LauncherBypassed.LauncherBypassed, "long"),
        ),
        "each pod may train alone, see LauncherBypassed; all 3 ranks exited 0",
    ),
    "a program that says otherwise, and succeeded": (
        (
            Fact(Succeeded.AllRanksSucceeded, "all 3 ranks exited 0"),
            Fact(SpecWarning.ProgramSaysOtherwise, "long"),
        ),
        "the program contradicts the job, see SpecWarning; all 3 ranks exited 0",
    ),
    "another warning": (
        (Fact(Running.Begun, "all 3 ranks run"), Fact(SpecWarning.SpecWarning, "long")),
        "all 3 ranks run",
    ),
    "bypassed, and failed": (
        (
            Fact(Failed.DeadlineExceeded, "too late"),
            Fact(LauncherBypassed.LauncherBypassed, "long"),
        ),
        "too late",
    ),
    "paused": (
        (
            Fact(Running.Begun, "all 3 ranks run"),
            Fact(Paused.Annotated, "paused: nothing is changed"),
        ),
        "paused: nothing is changed",
    ),
    "long": ((Fact(Failed.DeadlineExceeded, "x" * 201),), "x" * 196 + " ..."),
}


@pytest.mark.parametrize(("facts", "message"), MESSAGES.values(), ids=MESSAGES)
def test_the_message_is_short_and_says_what_voids_the_result(
    facts: tuple[Fact, ...], message: str
) -> None:
    assert having(*facts).message == message


def test_a_status_survives_being_stored() -> None:
    status = having(Fact(Running.Begun, "words"), Fact(PodsCreated.Creating))
    stored: dict[str, Any] = status.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert Status.model_validate(stored) == status
    assert (
        stored["conditions"][0]["lastTransitionTime"] == OLD == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    )
