"""What `ui` shows of a job, its pods and events."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dijob.cli.ui import graph, memory, story
from dijob.cli.ui.memory import Ends, Memory, Step
from dijob.cli.ui.states import Kind, State, of_pod, without_pod
from dijob.cli.ui.view import Seen, page, row
from dijob.cli.watching.view import Snapshot
from dijob.client import Job, RankPod
from unit.cli.seen import CREATED, condition, ended, event, job, pod

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
RUNS: dict[str, Any] = {"running": {}}
GATE = {"initContainerStatuses": [{"name": "dijob-gate", "state": RUNS}]}


def with_status(one: RankPod, **status: Any) -> RankPod:
    return RankPod({**one.body, "status": {**one.body["status"], **status}})


def unscheduled() -> RankPod:
    one = pod(0, state={"waiting": {}})
    return RankPod({**one.body, "spec": {}, "status": {"phase": "Pending"}})


def deleted() -> RankPod:
    one = pod(0)
    meta = {**one.meta, "deletionTimestamp": CREATED}
    return RankPod({**one.body, "metadata": meta})


STATES = [
    pytest.param(pod(0), False, State(Kind.READY, "Ready"), id="ready"),
    pytest.param(
        pod(0, state=RUNS), False, State(Kind.WAITING, "Runs, not Ready yet"), id="not ready yet"
    ),
    pytest.param(pod(0, state=ended(0)), False, State(Kind.DONE, "Completed"), id="succeeded"),
    pytest.param(
        pod(0, state=ended(137)), False, State(Kind.FAILED, "Error (137)"), id="just killed"
    ),
    pytest.param(
        pod(0, state=RUNS, lastState=ended(137)),
        False,
        State(Kind.FAILED, "Started again after exit code 137"),
        id="runs again, not ready",
    ),
    pytest.param(
        pod(0, lastState=ended(137)), False, State(Kind.READY, "Ready"), id="healed long ago"
    ),
    pytest.param(
        pod(0, lastState=ended(137)),
        True,
        State(Kind.FAILED, "Started again after exit code 137"),
        id="ready a moment after it was killed",
    ),
    pytest.param(
        pod(0, state=ended(85)),
        False,
        State(Kind.RENEWING, "Starts again with the next list"),
        id="ended for a renewal",
    ),
    pytest.param(
        pod(0, state=RUNS, lastState=ended(85)),
        False,
        State(Kind.RENEWING, "Started again, not Ready yet"),
        id="runs again after a renewal",
    ),
    pytest.param(pod(0, lastState=ended(85)), True, State(Kind.READY, "Ready"), id="renewed"),
    pytest.param(
        pod(0, state={"waiting": {"reason": "ImagePullBackOff"}}),
        False,
        State(Kind.FAILED, "ImagePullBackOff"),
        id="no image",
    ),
    pytest.param(
        with_status(pod(0, state={"waiting": {"reason": "PodInitializing"}}), **GATE),
        False,
        State(Kind.WAITING, "Waits for its peers' addresses"),
        id="gate",
    ),
    pytest.param(unscheduled(), False, State(Kind.WAITING, "Has no node yet"), id="unscheduled"),
    pytest.param(deleted(), False, State(Kind.RENEWING, "Its pod is ending"), id="deleted"),
]


@pytest.mark.parametrize(("one", "fell", "state"), STATES)
def test_the_state_of_a_rank(one: RankPod, fell: bool, state: State) -> None:
    assert of_pod(one, fell) == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({}, State(Kind.FAILED, "Lost: it has no pod now"), id="lost"),
        pytest.param(
            {"addressList": None, "phase": "Pending"},
            State(Kind.ABSENT, "Has no pod yet"),
            id="not made yet",
        ),
        pytest.param({"addressList": {"size": 1}}, State(Kind.ABSENT, "Has no pod yet"), id="new"),
        pytest.param({"succeededRanks": "0-1"}, State(Kind.DONE, "Completed"), id="succeeded"),
        pytest.param({"phase": "Failed"}, State(Kind.ABSENT, "Its pod is gone"), id="job over"),
        pytest.param({"phase": "Suspended"}, State(Kind.ABSENT, "Suspended"), id="suspended"),
    ],
)
def test_the_state_of_a_rank_without_a_pod(status: dict[str, Any], state: State) -> None:
    assert without_pod(1, job(**status).status) == state


NOT_READY = condition("PeersReady", "RankNotReady", true=False, message="rank 1\ncrashed")
WHOLE = (condition("Running", "Begun"), condition("PeersReady", "AllRanksReady"))


@pytest.mark.parametrize(
    ("seen", "tone"),
    [
        pytest.param(job(conditions=WHOLE), "good", id="whole"),
        pytest.param(job(conditions=[WHOLE[0], NOT_READY]), "problem", id="a rank crashed"),
        pytest.param(job(phase="Failed"), "problem", id="failed"),
        pytest.param(job(phase="Succeeded"), "good", id="succeeded"),
        pytest.param(job(phase=""), "waiting", id="no operator yet"),
        pytest.param(
            job(conditions=[condition("AddressesReady", "Gathering", true=False)], phase="Pending"),
            "waiting",
            id="on its way",
        ),
    ],
)
def test_the_tone_of_a_job(seen: Job, tone: str) -> None:
    assert row(seen)["tone"] == tone


def test_a_row_of_the_list() -> None:
    seen = job(message="all 3\nranks run", progress={"line": "iter 7"}, restarts=2)
    assert row(seen) == {
        "namespace": "ns",
        "name": "test",
        "phase": "Running",
        "tone": "waiting",
        "message": "all 3 ranks run",
        "ready": 3,
        "desired": 3,
        "restarts": 2,
        "progress": "iter 7",
        "created": CREATED,
    }


def edges(spec: dict[str, Any], ready: set[int], **status: Any) -> list[list[Any]]:
    return list(graph.graph(job(spec=spec, **status), ready)["edges"])


@pytest.mark.parametrize(
    ("spec", "ready", "pairs"),
    [
        pytest.param(
            {},
            {0, 1},
            [[1, 0, 1, True], [2, 0, 1, False], [2, 1, 1, False]],
            id="mesh",
        ),
        pytest.param({"topology": "star"}, {0, 2}, [[1, 0, 1, False], [2, 0, 1, True]], id="star"),
        pytest.param(
            {"replicas": 2, "parallelWorkers": 2},
            {0, 1},
            [[0, 0, 1, True], [1, 0, 4, True], [1, 1, 1, True]],
            id="two workers",
        ),
        pytest.param({"topology": "alone"}, {0}, [], id="alone"),
        pytest.param(
            {"replicas": 2, "messageQueue": {"type": "redis", "host": "redis"}},
            {1},
            [[0, -1, 1, False], [1, -1, 1, True]],
            id="redis",
        ),
    ],
)
def test_the_edges(spec: dict[str, Any], ready: set[int], pairs: list[list[Any]]) -> None:
    assert edges(spec, ready) == pairs


FINISHED = [condition("Finished", "Succeeded"), condition("Succeeded", "AllRanksSucceeded")]


@pytest.mark.parametrize(
    ("seen", "note"),
    [
        pytest.param(
            job(spec={"replicas": 49}), "connections of 49 ranks are not drawn", id="large"
        ),
        pytest.param(
            job(spec={"replicas": 20, "parallelWorkers": 30}),
            "connections of 20 ranks are not drawn",
            id="many workers",
        ),
        pytest.param(job(conditions=FINISHED, phase="Succeeded"), "", id="over"),
        pytest.param(job(spec={"replicas": -1}), "the job cannot be read: ", id="invalid"),
    ],
)
def test_where_no_edges_are_drawn(seen: Job, note: str) -> None:
    drawn = graph.graph(seen, set())
    assert (drawn["edges"], drawn["total"]) == ([], 0)
    assert drawn["note"].startswith(note)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {},
            [
                "ranks 1-2 start again with it",
                "rank 2 starts again with it",
                "no other rank starts again",
            ],
            id="mesh",
        ),
        pytest.param(
            {"restart": {"scope": "Job"}}, ["all ranks start again with it"] * 3, id="together"
        ),
        pytest.param({"addressing": "Hostname"}, ["no other rank starts again"] * 3, id="by name"),
        pytest.param({"replicas": 49}, [], id="large"),
    ],
)
def test_who_restarts_with_a_rank(spec: dict[str, Any], said: list[str]) -> None:
    assert graph.restarts(job(spec=spec).model) == said


LOSS = {"listNumber": 1, "reason": "PodDeleted", "message": "rank 1 was deleted", "ranks": "1-2"}


@pytest.mark.parametrize(
    ("status", "ranks"),
    [
        pytest.param({}, set(), id="no loss"),
        pytest.param({"lastRenewal": LOSS}, {1, 2}, id="the list is dead"),
        pytest.param({"lastRenewal": LOSS, "listNumber": 2}, set(), id="the next one is there"),
        pytest.param({"lastRenewal": {**LOSS, "ranks": ""}}, {0, 1, 2}, id="all"),
    ],
)
def test_who_is_renewed_now(status: dict[str, Any], ranks: set[int]) -> None:
    assert graph.renewed(job(**status).status) == ranks


def at(second: int) -> str:
    return f"2026-11-25T11:59:{second:02}Z"


BEGUN = event("Begun", "all 3 ranks run", at=at(1))


@pytest.mark.parametrize(
    ("status", "events", "steps", "shown"),
    [
        pytest.param(
            {"phase": "Pending"},
            [],
            [Step(CREATED, "Pending")],
            [(CREATED, "Pending")],
            id="pending",
        ),
        pytest.param(
            {},
            [BEGUN],
            [Step(at(30), "Running")],
            [(CREATED, "Pending"), (at(1), "Running")],
            id="ran before the command",
        ),
        pytest.param(
            {},
            [],
            [Step(at(30), "Running")],
            [(CREATED, "Pending"), (at(30), "Running")],
            id="its events are gone",
        ),
        pytest.param(
            {},
            [BEGUN],
            [Step(at(0), "Pending"), Step(at(1), "Starting"), Step(at(1), "Running")],
            [(CREATED, "Pending"), (at(1), "Starting"), (at(1), "Running")],
            id="seen from its start",
        ),
        pytest.param(
            {"phase": "Succeeded", "completionTime": at(40)},
            [BEGUN],
            [Step(at(50), "Succeeded")],
            [(CREATED, "Pending"), (at(1), "Running"), (at(40), "Succeeded")],
            id="over before the command",
        ),
    ],
)
def test_the_phases(
    status: dict[str, Any],
    events: Sequence[Mapping[str, Any]],
    steps: list[Step],
    shown: list[tuple[str, str]],
) -> None:
    found = story.phases(job(**status), events, Memory(at(30), phases=steps))
    assert [(one["time"], one["value"]) for one in found] == shown


def test_the_story_is_in_the_order_of_time_and_says_nothing_twice() -> None:
    told = story.told(
        job(
            lastRenewal={**LOSS, "time": at(10)},
            firstFailure={"rank": 1, "pod": "test-1", "exitCode": 3, "time": at(5)},
        ),
        [BEGUN, BEGUN, event("RankNotReady", "rank 1", at=at(5), type="Warning", count=2)],
        Memory(CREATED, lists=[Step(CREATED, "0"), Step(at(2), "1")]),
    )
    assert [(one["title"], one["tone"]) for one in told] == [
        ("Created", "plain"),
        ("Begun", "good"),
        ("Address list 1", "plain"),
        ("First failure", "problem"),
        ("RankNotReady", "problem"),
        ("List 1 died: PodDeleted", "problem"),
    ]
    assert told[-1]["text"] == "rank 1 was deleted; renewed: ranks 1-2"
    assert told[-2]["text"] == f"rank 1 (2 times, last at {at(5)})"


def test_what_is_remembered() -> None:
    seen = Memory("")
    reported = {"iteration": 3, "envStep": 40, "episodeReturn": 1.5, "time": at(3)}
    for status in (
        {"phase": "Pending", "listNumber": 0},
        {"phase": "Running", "progress": reported},
        {"phase": "Running", "progress": reported},
    ):
        seen.see(job(**status), NOW)
    assert [one.value for one in seen.phases] == ["Pending", "Running"]
    assert [one.value for one in seen.lists] == ["0", "1"]
    assert seen.points == [{"time": at(3), "iteration": 3, "step": 40, "return": 1.5}]


def test_a_long_curve_loses_every_second_point_but_the_last() -> None:
    seen = Memory("")
    for number in range(memory.MOST_POINTS + 1):
        reported = {"iteration": number, "time": f"{NOW + timedelta(seconds=number):%FT%TZ}"}
        seen.see(job(progress=reported), NOW)
    kept = [point["iteration"] for point in seen.points]
    assert kept == list(range(0, memory.MOST_POINTS + 1, 2))
    assert memory.thinned([{"at": 1}, {"at": 2}]) == [{"at": 1}, {"at": 2}]


@pytest.mark.parametrize(
    ("code", "fell"),
    [
        pytest.param(137, [set(), {0}, {0}, set()], id="killed"),
        pytest.param(85, [set(), set(), set(), set()], id="renewed"),
    ],
)
def test_a_bad_end_is_remembered_for_a_moment(code: int, fell: list[set[int]]) -> None:
    ends, before = Ends(), pod(0)
    after = pod(0, restartCount=1, lastState=ended(code))
    seen = [ends.see([before], 0), ends.see([after], 1), ends.see([after], 4), ends.see([after], 6)]
    assert seen == fell


def test_ends_before_the_command_began_are_no_news() -> None:
    assert not Ends().see([pod(0, restartCount=3, lastState=ended(1))], 0)


def seen_page(**more: Any) -> dict[str, Any]:
    pods = [pod(0), pod(1, state=RUNS, lastState=ended(137), restartCount=1)]
    conditions = [WHOLE[0], NOT_READY]
    now = Snapshot(job(conditions=conditions, message="rank 1 crashed"), pods, [BEGUN])
    return page(Seen(replace(now, **more), Memory(CREATED)))


def test_the_page_of_a_job() -> None:
    found = seen_page()
    assert [(one["rank"], one["kind"]) for one in found["ranks"]] == [
        (0, "ready"),
        (1, "failed"),
        (2, "failed"),
    ]
    assert found["ranks"][1] == {
        "rank": 1,
        "kind": "failed",
        "state": "Started again after exit code 137",
        "task": "",
        "pod": "test-1",
        "node": "n1",
        "ip": "10.0.0.1",
        "restarts": 1,
        "list": 1,
        "again": "rank 2 starts again with it",
        "renewed": False,
    }
    assert (found["graph"]["up"], found["graph"]["total"]) == (0, 3)
    assert "heals by itself" in found["remedy"]
    assert found["failure"] == ""


def test_who_may_not_see_pods_is_told_no_lie() -> None:
    why = 'pods is forbidden: User "x" cannot list resource "pods" in API group ""'
    found = seen_page(pods=[], unseen=(why,))
    assert {one["state"] for one in found["ranks"]} == {"Cannot be seen"}
    assert found["unseen"] == [why]


def test_a_job_that_cannot_be_read_has_a_page_too() -> None:
    broken = job(spec={"replicas": -1}, desired=0, phase="Pending")
    found = page(Seen(Snapshot(broken), Memory(CREATED)))
    assert found["ranks"] == []
    assert "cannot be read" in found["graph"]["note"]
