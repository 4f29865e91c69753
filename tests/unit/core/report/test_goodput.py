"""The status says how a job has spent its time. The numbers add up to the wall time, whatever
happens to the job, the clock and the operator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from dijob.api.parse import parse_status
from dijob.api.status import (
    MOST_INTERRUPTIONS,
    Goodput,
    Interruption,
    Renewal,
    Status,
    format_time,
    parse_time,
)
from dijob.core.facts import Fact
from dijob.core.membership.list_state import SUSPENDED
from dijob.core.report.goodput import MOST_CHARACTERS, Circumstances, account_time
from dijob.core.report.summary import apply_facts
from dijob.core.report.time_spent import TimeSpent, has_restarted_since, read_time_spent
from dijob.names import Activity
from dijob.reasons import (
    PeersReady,
    Running,
    Succeeded,
    Suspended,
    Terminating,
)
from hypothesis import given
from hypothesis import strategies as st
from samples.builders import NOW, job, later, listed, observed, running, stored, then, view
from samples.builders import plan as planned

CREATED = format_time(NOW)
STARTS = (Fact(Running.Starting), Fact(PeersReady.Starting))
RUNS = (Fact(Running.Begun), Fact(PeersReady.AllRanksReady), Fact(Suspended.Resumed))
BYPASSED = (Fact(Running.Begun), Fact(PeersReady.LauncherBypassed))
JOINS = (Fact(Running.Begun), Fact(PeersReady.Starting))
UNREADY = (Fact(Running.Begun), Fact(PeersReady.RankNotReady))
RENEWS = (Fact(Running.Begun), Fact(PeersReady.Renewing))
ALL_RENEW = (Fact(Running.Renewing), Fact(PeersReady.Renewing))
SUSPENDS = (Fact(Running.Suspended), Fact(PeersReady.Suspended), Fact(Suspended.Suspended))
ENDS = (Fact(Running.Finished), Fact(PeersReady.Finished), Fact(Succeeded.AllRanksSucceeded))
DELETED = (
    Fact(Running.Terminating),
    Fact(PeersReady.Terminating),
    Fact(Terminating.WaitsForPods),
)
ROOM = Circumstances(waits_for_room=True)
NONE = Circumstances()
Facts = tuple[Fact, ...]


@dataclass
class History:
    """A job whose status an operator writes. The operator keeps nothing in its memory."""

    status: Status = field(default_factory=Status)
    writes: int = 0

    def see(
        self, at: float, facts: Facts, seen: Circumstances = NONE, **fields: Any
    ) -> Goodput | None:
        """Observe these facts and fields after this many seconds, and write the status."""
        self.status = self.decide(later(at), facts, seen, **fields)
        self.writes += 1
        # The next operator reads what the API server has stored.
        dumped = self.status.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert parse_status({"status": dumped}) == self.status
        return self.status.goodput

    def decide(
        self, now: datetime, facts: Facts, seen: Circumstances = NONE, **fields: Any
    ) -> Status:
        new = apply_facts(self.status.model_copy(update=fields), facts, 1, now)
        return new.model_copy(
            update={"goodput": account_time(self.status, new, seen, CREATED, now)}
        )

    def read(self, at: float, share: float = 0.0) -> TimeSpent:
        found = read_time_spent(self.status, CREATED, later(at), share)
        assert found is not None
        return found


def loss(at: float, rank: int = 1, reason: str = "PodLost", number: int = 1) -> dict[str, Any]:
    renewal = Renewal(
        reason=reason, lost=str(rank), ranks=f"{rank}-3", list_number=number, time=str(at)
    )
    return {"list_number": number, "last_renewal": renewal}


def seconds(spent: TimeSpent) -> dict[str, int]:
    return {each.value: number for each, number in spent.seconds.items() if number}


Step = tuple[Any, ...]
HISTORIES: dict[str, tuple[list[Step], dict[str, int]]] = {
    "starts from its creation": ([(1, STARTS)], {"Starting": 100}),
    "is Running in its first status": ([(9, RUNS)], {"Starting": 9, "Running": 91}),
    "waits for room": (
        [(3, STARTS, ROOM), (40, STARTS), (50, RUNS)],
        {"Starting": 13, "Waiting": 37, "Running": 50},
    ),
    "is suspended": (
        [(10, RUNS), (20, SUSPENDS), (50, (*STARTS, Fact(Suspended.Resumed))), (60, RUNS)],
        {"Starting": 20, "Waiting": 30, "Running": 50},
    ),
    "loses a rank": (
        [(10, RUNS), (20, RENEWS), (25, RENEWS), (50, RUNS)],
        {"Starting": 10, "Recovering": 30, "Running": 60},
    ),
    "loses all ranks": (
        [(10, RUNS), (20, ALL_RENEW), (30, STARTS), (50, RUNS)],
        {"Starting": 10, "Recovering": 30, "Running": 60},
    ),
    "loses a rank before it runs": (
        [(5, ALL_RENEW), (50, RUNS)],
        {"Starting": 50, "Running": 50},
    ),
    "crashes in its pod": (
        [(10, RUNS), (20, UNREADY), (23, JOINS), (25, RUNS)],
        {"Starting": 10, "Recovering": 5, "Running": 85},
    ),
    "has a rank that joins": (
        [(10, RUNS), (20, JOINS), (40, RUNS)],
        {"Starting": 10, "Running": 90},
    ),
    "bypasses the launcher": ([(10, BYPASSED)], {"Starting": 10, "Running": 90}),
    "ends": ([(10, RUNS), (60, ENDS)], {"Starting": 10, "Running": 50}),
    "is deleted": ([(10, RUNS), (60, DELETED)], {"Starting": 10, "Running": 50}),
    "is written again": (
        [(10, RUNS), (20, RUNS), (30, RUNS)],
        {"Starting": 10, "Running": 90},
    ),
    "has a clock that is set back": (
        [(10, RUNS), (4, RENEWS), (8, RUNS)],
        {"Starting": 10, "Running": 90},
    ),
}


@pytest.mark.parametrize(("steps", "expected"), HISTORIES.values(), ids=HISTORIES)
def test_the_report_says_what_the_time_of_a_job_was_spent_on(
    steps: list[Step], expected: dict[str, int]
) -> None:
    history = History()
    for step in steps:
        history.see(*step)
    assert seconds(history.read(100)) == expected


def test_a_job_that_waits_for_room_after_a_loss_continues_the_same_interruption() -> None:
    history = History()
    history.see(10, RUNS)
    history.see(20, ALL_RENEW, **loss(20))
    history.see(25, ALL_RENEW, ROOM)
    history.see(65, ALL_RENEW)
    history.see(70, STARTS, list_number=2)
    history.see(80, RUNS)
    spent = history.read(100)
    assert seconds(spent) == {"Starting": 10, "Running": 30, "Recovering": 20, "Waiting": 40}
    (only,) = spent.interruptions
    assert (only.seconds, only.lost, only.time) == (20, "1", format_time(later(20)))


CAUSES: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "a lost rank": (loss(20), ("PodLost", "1", "1-3")),
    "a crash": ({"restarts": 1}, ("Crashed", "2", "2")),
    "neither": ({}, ("NotReady", "2", "2")),
}


@pytest.mark.parametrize(("fields", "cause"), CAUSES.values(), ids=CAUSES)
def test_an_interruption_has_its_cause_and_its_ranks(
    fields: dict[str, Any], cause: tuple[str, str, str]
) -> None:
    history = History()
    history.see(10, RUNS)
    history.see(20, UNREADY, Circumstances(lagging=frozenset({2})), **fields)
    (one,) = history.read(30).interruptions
    assert (one.reason, one.lost, one.ranks, one.seconds) == (*cause, 10)


def test_a_second_loss_extends_the_interruption() -> None:
    history = History()
    history.see(10, RUNS)
    history.see(20, RENEWS, **loss(20, rank=3))
    history.see(25, RENEWS, **loss(25, rank=2, reason="PodDeleted"))
    (one,) = history.read(30).interruptions
    assert (one.reason, one.lost, one.ranks) == ("PodLost", "2-3", "2-3")


def test_a_crash_explains_an_unready_rank() -> None:
    history = History()
    history.see(10, RUNS)
    history.see(20, UNREADY, Circumstances(lagging=frozenset({1})))
    history.see(25, UNREADY, Circumstances(lagging=frozenset({1})), restarts=1)
    (one,) = history.read(30).interruptions
    assert (one.reason, one.lost) == ("Crashed", "1")


def test_a_suspension_is_no_cause_of_a_later_interruption() -> None:
    history = History()
    history.see(10, RUNS, **loss(5, reason=SUSPENDED))
    history.see(20, UNREADY, Circumstances(lagging=frozenset({1})))
    (one,) = history.read(30).interruptions
    assert one.reason == "NotReady"


def test_the_status_keeps_the_last_interruptions_and_the_seconds_of_all() -> None:
    history = History()
    for number in range(20):
        history.see(10 + 10 * number, RUNS)
        many = frozenset(range(0, 2000, 2))
        figures = history.see(17 + 10 * number, UNREADY, Circumstances(lagging=many))
    history.see(300, RUNS)
    figures = history.status.goodput
    assert figures is not None
    assert len(figures.last_interruptions) == MOST_INTERRUPTIONS
    assert {one.lost for one in figures.last_interruptions} == {"0-1998"}
    assert max(len(one.ranks) for one in figures.last_interruptions) <= MOST_CHARACTERS
    spent = history.read(300)
    assert spent.earlier_count == 20 - MOST_INTERRUPTIONS
    assert spent.earlier_seconds == 3 * spent.earlier_count
    assert spent.seconds[Activity.RECOVERING] == 3 * 19 + 93


OLDER: dict[str, tuple[Facts, dict[str, int], float]] = {
    "a running job, since its ranks are Ready": (RUNS, {"Running": 90}, 10),
    "a recovering job, from now on": (RENEWS, {}, 100),
    "a suspended job, from now on": (SUSPENDS, {}, 100),
    "a starting job, from now on": (STARTS, {}, 100),
}


@pytest.mark.parametrize(("facts", "expected", "since"), OLDER.values(), ids=OLDER)
def test_a_job_of_an_older_version_is_counted_from_a_known_time(
    facts: Facts, expected: dict[str, int], since: float
) -> None:
    history = History(apply_facts(Status(), facts, 1, later(10)))
    spent = history.read(100)
    assert (seconds(spent), spent.since) == (expected, format_time(later(since)))
    history.see(100, facts, replicas=2)
    assert seconds(history.read(100)) == expected
    assert seconds(history.read(130)) == {spent.activity: 30 + sum(expected.values())}


def test_a_job_that_ended_under_an_older_version_has_no_figures() -> None:
    history = History(apply_facts(Status(), ENDS, 1, later(10)))
    assert history.see(20, ENDS, replicas=0) is None
    assert read_time_spent(history.status, CREATED, later(30)) is None


EDITED: dict[str, dict[str, Any]] = {
    "no time": {"activitySince": ""},
    "text": {"activitySince": "yesterday"},
    "the first year": {"activitySince": "0001-01-01T00:00:00+14:00", "since": "0001-01-01"},
    "a negative number": {"runningSeconds": -1},
    "a huge number": {"runningSeconds": 2_000_000_000},
    "an unknown activity": {"activity": "Dreaming"},
}


@pytest.mark.parametrize("edit", EDITED.values(), ids=EDITED)
def test_figures_that_were_edited_by_hand_break_nothing(edit: dict[str, Any]) -> None:
    history = History()
    history.see(10, RUNS)
    body = history.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    history.status = parse_status({"status": {**body, "goodput": {**body["goodput"], **edit}}})
    history.read(15)
    figures = history.see(20, RENEWS)
    assert figures is not None
    assert parse_time(figures.activity_since)
    assert 0 <= figures.running_seconds < 2**31


def test_repeated_work_is_a_part_of_the_running_time() -> None:
    history = History()
    history.see(10, RUNS)
    spent = history.read(110, share=0.25)
    assert (spent.repeated, spent.productive, spent.total) == (25, 75, 110)


# Each step: how far the clock moves (it can be set back), what the operator observes, and what
# happens to the write of the status.
STATES = st.sampled_from([STARTS, RUNS, JOINS, UNREADY, RENEWS, ALL_RENEW, SUSPENDS, BYPASSED])
STORED, LOST, KILLED = "stored", "lost", "killed before it"
STEPS = st.lists(
    st.tuples(
        st.floats(-100, 5000, allow_nan=False),
        STATES,
        st.booleans(),
        st.booleans(),
        st.sampled_from([STORED, STORED, STORED, LOST, KILLED]),
    ),
    max_size=40,
)


@given(steps=STEPS, ends=st.booleans(), rest=st.floats(-50, 5000, allow_nan=False))
def test_the_seconds_add_up_to_the_wall_time(
    steps: Iterable[tuple[float, Facts, bool, bool, str]], ends: bool, rest: float
) -> None:
    history, at, number = History(), 0.0, 1
    for moves, facts, waits, loses, fate in steps:
        at = max(at + moves, 1.0)
        fields = loss(at, number=number) if loses else {}
        number += loses
        decided = history.decide(later(at), facts, Circumstances(waits), **fields)
        # A status that was not stored has no effect: the next operator decides again.
        if fate == STORED:
            history.status = decided
        check_sum(history, at)
    if ends:
        at = max(at + rest, 1.0)
        history.status = history.decide(later(at), ENDS)
        figures = history.status.goodput
        assert figures is not None
        assert history.read(at + 1000).total == wall(figures.since, figures.activity_since)
    check_sum(history, at)


def wall(since: str, until: str) -> int:
    begin, end = parse_time(since), parse_time(until)
    assert begin
    assert end
    return int((end - begin).total_seconds())


def check_sum(history: History, at: float) -> None:
    """Check the figures as a reader sees them at this time, and later."""
    figures = history.status.goodput
    spent, after = history.read(at), history.read(at + 100_000)
    since = parse_time(spent.since)
    assert since
    for read, time in ((spent, at), (after, at + 100_000)):
        # Until the clock reaches the begin of the present activity again, no time is added.
        known = parse_time(figures.activity_since) if figures else since
        assert known
        until = max(known, later(time))
        if spent.activity is Activity.ENDED:
            until = known
        assert read.total == int((until - since).total_seconds())
        parts = sum(one.seconds for one in read.interruptions) + read.earlier_seconds
        assert parts == read.seconds[Activity.RECOVERING]
        assert all(number >= 0 for number in read.seconds.values())
    assert len(spent.interruptions) <= MOST_INTERRUPTIONS


def test_a_plan_counts_the_time_of_its_job() -> None:
    owner = running()
    assert owner.status.goodput == Goodput(since=CREATED, activity_since=CREATED, activity=RUNNING)
    assert then(owner, observed(*(listed(rank, owner) for rank in range(3))), 60)[1] == owner
    decided, owner = then(owner, observed(listed(0, owner), listed(1, owner)), 60)
    figures = decided.status.goodput
    assert figures is not None
    assert (figures.running_seconds, figures.activity) == (60, Activity.RECOVERING)
    (lost,) = figures.last_interruptions
    assert (lost.reason, lost.lost, lost.ranks) == ("PodLost", "2", "2")


RUNNING = Activity.RUNNING


def test_a_pod_without_a_node_is_a_wait_for_room() -> None:
    owner = job()
    without = {"phase": "Pending", "ip": "", "node": "", "complaint": "no node"}
    pods = [view(rank, owner, **without) for rank in range(3)]
    decided = planned(owner, observed(*pods), later(5))
    assert decided.status.goodput
    assert decided.status.goodput.activity is Activity.WAITING
    assert stored(owner, decided).status.goodput


def test_time_alone_changes_no_status() -> None:
    owner = running()
    ranks = observed(*(listed(rank, owner) for rank in range(3)))
    for passed in (1, 60, 86400):
        assert planned(owner, ranks, NOW + timedelta(seconds=passed)).status == owner.status


@pytest.mark.parametrize(
    ("begin", "restarted"),
    [
        (format_time(NOW), True),
        (format_time(NOW - timedelta(seconds=10)), True),
        (format_time(NOW - timedelta(seconds=11)), False),
        ("9999-12-31T23:59:59Z", True),
        ("0001-01-01T00:00:00Z", False),
        ("never", False),
    ],
)
def test_whether_an_interruption_has_ended_since_a_report(begin: str, restarted: bool) -> None:
    """Anyone who may write the status can have set these times."""
    figures = Goodput(
        activity=Activity.RUNNING, last_interruptions=(Interruption(time=begin, seconds=10),)
    )
    assert has_restarted_since(Status(goodput=figures), format_time(NOW)) is restarted
