"""The record of a job: what it contains, and how its curve and its phases grow."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from dijob.api.recorded import CurvePoint, JobRecord, PhaseChange
from dijob.api.status import format_time
from dijob.history.record import (
    MOST_PHASES,
    MOST_POINTS,
    add_point,
    differs_in_state,
    make_record,
    mark_deleted,
)
from fakes.history_lab import Body, body
from hypothesis import given
from hypothesis import strategies as st
from samples import builders

ENDED = format_time(builders.NOW)
NOW, LATER = "2026-11-27T12:00:00Z", "2026-11-27T12:01:00Z"


def test_a_record_has_the_spec_the_outcome_and_the_first_failure() -> None:
    failure = {"rank": 1, "exitCode": 3, "message": "boom"}
    made = body(phase="Failed", status={"firstFailure": failure, "restarts": 2})
    made["metadata"]["labels"] = {"owner": "ada", "team": "blue"}
    record = make_record(made, None, NOW)
    assert (record.outcome, record.reason, record.message) == ("Failed", "Because", "It is so")
    assert (record.ended, record.over) == (ENDED,) * 2
    assert (record.owner, record.labels["team"], record.restarts) == ("ada", "blue", 2)
    assert record.first_failure is not None
    assert (record.first_failure.rank, record.first_failure.exit_code) == (1, 3)
    assert record.spec == made["spec"]


OUTCOMES: dict[str, tuple[Body, bool, str]] = {
    "ended": (body(phase="Succeeded"), False, "Succeeded"),
    "ended, then deleted": (body(phase="Failed"), True, "Failed"),
    "deleted while it ran": (body(phase="Running"), True, "Deleted"),
    "running": (body(phase="Running"), False, "Running"),
    "new": ({**body(), "status": {}}, False, ""),
}


@pytest.mark.parametrize(("made", "deleted", "outcome"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_outcome_of_a_job(made: Body, deleted: bool, outcome: str) -> None:
    record = make_record(made, None, NOW)
    record = mark_deleted(record, LATER) if deleted else record
    assert record.outcome == outcome
    assert record.deleted == (LATER if deleted else "")
    assert mark_deleted(record, "2027-01-01T00:00:00Z").deleted in (LATER, "2027-01-01T00:00:00Z")


def test_the_first_time_of_a_deletion_counts() -> None:
    record = mark_deleted(make_record(body(), None, NOW), NOW)
    assert mark_deleted(record, LATER).deleted == NOW


INVALID: dict[str, Any] = {
    "a status that a user broke": {"restarts": -1, "progress": {"iteration": "x"}, "phase": 3},
    "no status": None,
    "progress of another type": {"progress": []},
}


@pytest.mark.parametrize("status", INVALID.values(), ids=INVALID)
def test_a_job_with_an_invalid_status_is_recorded(status: Any) -> None:
    record = make_record({**body(), "status": status}, None, NOW)
    assert (record.restarts, record.curve) == (0, ())


def progress(number: int, **figures: Any) -> Body:
    time = f"2026-11-27T10:{number // 60:02}:{number % 60:02}Z"
    return {"progress": {"time": time, **(figures or {"iteration": number})}}


def test_the_curve_continues_that_of_the_earlier_record() -> None:
    record = make_record(body(status=progress(1)), None, NOW)
    again = make_record(body(status=progress(1)), record, NOW)
    assert again.curve == record.curve
    more = make_record(body(status=progress(2, episodeReturn=1.5)), record, NOW)
    assert [(one.iteration, one.episode_return) for one in more.curve] == [(1, None), (None, 1.5)]
    # A report of numbers that are no progress, such as the fill level of a buffer, adds no point.
    assert make_record(body(status=progress(3, bufferPercent=3)), more, NOW).curve == more.curve


@given(st.integers(1, 5 * MOST_POINTS))
def test_a_curve_is_bounded_and_covers_the_whole_run(number: int) -> None:
    curve: tuple[CurvePoint, ...] = ()
    begin = datetime(2026, 11, 27, tzinfo=UTC)
    for at in range(number):
        time = format_time(begin + timedelta(seconds=10 * at))
        curve = add_point(curve, CurvePoint(time=time, iteration=at))
    found = [one.iteration or 0 for one in curve]
    assert len(curve) == min(number, MOST_POINTS)
    assert (found[0], found[-1]) == (0, number - 1)
    gaps = [later - earlier for earlier, later in pairwise(found)]
    assert min(gaps, default=1) > 0
    assert max(gaps, default=0) <= max(1, 3 * number / MOST_POINTS)


def test_phases_are_added_when_they_change_and_are_bounded() -> None:
    record: JobRecord | None = None
    for at in range(3 * MOST_PHASES):
        for _ in range(2):
            phase = "Running" if at % 2 else "Starting"
            record = make_record(body(phase=phase), record, f"{at:03}")
    assert record is not None
    assert len(record.phases) <= MOST_PHASES
    assert record.phases[0] == PhaseChange(phase="Starting", time="000")
    assert record.phases[-1].time == f"{3 * MOST_PHASES - 1:03}"


def test_a_phase_of_the_end_has_the_time_of_the_end() -> None:
    assert make_record(body(phase="Failed"), None, NOW).phases[-1].time == ENDED


def test_progress_alone_is_no_change_of_state() -> None:
    record = make_record(body(status=progress(1)), None, NOW)
    assert differs_in_state(None, record)
    assert not differs_in_state(record, make_record(body(status=progress(2)), record, NOW))
    assert differs_in_state(record, make_record(body(phase="Failed"), record, NOW))


def test_the_brief_form_has_no_large_parts() -> None:
    record = make_record(body(phase="Failed", status=progress(1)), None, NOW)
    brief = record.dump(brief=True)
    assert not {"spec", "curve", "phases"} & brief.keys()
    assert JobRecord.model_validate(record.dump()) == record
