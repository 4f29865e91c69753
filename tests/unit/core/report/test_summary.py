"""Conditions, and the phase and the message that follow from them."""

from typing import Any

import pytest
from dijob.api.status import Condition, Status
from dijob.core.facts import Fact, is_true
from dijob.core.report.summary import events, job_phase
from dijob.names import Phase
from dijob.reasons import (
    AddressesReady,
    Failed,
    Invalid,
    LauncherBypassed,
    Paused,
    PodsCreated,
    Running,
    ServiceReady,
    SpecWarning,
    Succeeded,
)
from samples.builders import NOW
from samples.summaries import having

OLD, NEW = "2026-05-04T12:00:00Z", "2026-05-04T12:00:09Z"


def found(status: Status, type_: str) -> Condition:
    return next(c for c in status.conditions if c.type == type_)


PHASES: dict[str, tuple[tuple[Fact, ...], Phase]] = {
    "no facts": ((), Phase.PENDING),
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
    "invalid while it runs": (
        (Fact(Invalid.SpecInvalid), Fact(Running.Begun)),
        Phase.RUNNING,
    ),
}


@pytest.mark.parametrize(("facts", "word"), PHASES.values(), ids=PHASES)
def test_the_phase_follows_from_the_conditions(facts: tuple[Fact, ...], word: Phase) -> None:
    status = having(*facts)
    assert (job_phase(status), status.phase) == (word, word.value)
    assert status.ended is (word in (Phase.SUCCEEDED, Phase.FAILED))


def ends(status: Status) -> list[tuple[str, str, str, str]]:
    """Return the condition Finished if it exists: its status, reason, message and time."""
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
def test_an_ended_job_is_finished(
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


def test_finished_is_removed_from_a_job_that_has_not_ended() -> None:
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
def test_the_transition_time_changes_only_with_the_status(fact: Fact, time: str) -> None:
    after = having(fact, before=having(Fact(Running.Begun)), seconds=9)
    assert found(after, "Running").last_transition_time == time
    assert found(after, "Running").reason == fact.reason.name


def test_conditions_without_a_new_fact_stay_and_the_order_is_fixed() -> None:
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


MESSAGES: dict[str, tuple[tuple[Fact, ...], str]] = {
    "runs": ((Fact(Running.Begun, "all 3 ranks are running"),), "all 3 ranks are running"),
    "bypassed": (
        (
            Fact(Running.Begun, "all 3 ranks are running"),
            Fact(LauncherBypassed.LauncherBypassed, "long"),
        ),
        "each pod may train alone, see LauncherBypassed; all 3 ranks are running",
    ),
    "bypassed, and succeeded": (
        (
            Fact(Succeeded.AllRanksSucceeded, "all 3 ranks exited 0"),
            Fact(LauncherBypassed.LauncherBypassed, "long"),
        ),
        "each pod may train alone, see LauncherBypassed; all 3 ranks exited 0",
    ),
    "a program with conflicting arguments that succeeded": (
        (
            Fact(Succeeded.AllRanksSucceeded, "all 3 ranks exited 0"),
            Fact(SpecWarning.ProgramSaysOtherwise, "long"),
        ),
        "the program's arguments conflict with the job, see SpecWarning; all 3 ranks exited 0",
    ),
    "another warning": (
        (Fact(Running.Begun, "all 3 ranks are running"), Fact(SpecWarning.SpecWarning, "long")),
        "all 3 ranks are running",
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
            Fact(Running.Begun, "all 3 ranks are running"),
            Fact(Paused.Annotated, "paused: nothing is changed"),
        ),
        "paused: nothing is changed",
    ),
    "long": ((Fact(Failed.DeadlineExceeded, "x" * 201),), "x" * 196 + " ..."),
}


@pytest.mark.parametrize(("facts", "message"), MESSAGES.values(), ids=MESSAGES)
def test_the_message_is_short_and_includes_doubts_about_the_result(
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
