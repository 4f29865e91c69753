"""Connections, losses, phases and the memory of `ui` for a job."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from dijob.client import Job
from dijob_extras.ui import graph, memory, story
from dijob_extras.ui.memory import Ends, PageMemory, SeenValue
from dijob_extras.ui.story import shorten_text
from unit.extras.seen import CREATED, condition, ended, event, job, pod

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def edges(spec: dict[str, Any], ready: set[int], **status: Any) -> list[list[Any]]:
    return list(graph.build_graph(job(spec=spec, **status), ready)["edges"])


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
def test_the_connections_between_ranks(
    spec: dict[str, Any], ready: set[int], pairs: list[list[Any]]
) -> None:
    assert edges(spec, ready) == pairs


FINISHED = [condition("Finished", "Succeeded"), condition("Succeeded", "AllRanksSucceeded")]


@pytest.mark.parametrize(
    ("seen", "note"),
    [
        pytest.param(
            job(spec={"replicas": 49}),
            "connections of a job with 49 ranks are not drawn",
            id="large",
        ),
        pytest.param(
            job(spec={"replicas": 20, "parallelWorkers": 30}),
            "connections of a job with 20 ranks are not drawn",
            id="many workers",
        ),
        pytest.param(job(conditions=FINISHED, phase="Succeeded"), "", id="over"),
        pytest.param(job(spec={"replicas": -1}), "the spec is invalid: ", id="invalid"),
    ],
)
def test_jobs_without_drawn_connections(seen: Job, note: str) -> None:
    drawn = graph.build_graph(seen, set())
    assert (drawn["edges"], drawn["total"]) == ([], 0)
    assert drawn["note"].startswith(note)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        pytest.param(
            {},
            [
                "ranks 1-2 restart with it",
                "rank 2 restarts with it",
                "no other rank restarts",
            ],
            id="mesh",
        ),
        pytest.param(
            {"restart": {"scope": "Job"}},
            ["all ranks restart with it"] * 3,
            id="a restart of all ranks",
        ),
        pytest.param({"addressing": "Hostname"}, ["no other rank restarts"] * 3, id="by name"),
        pytest.param({"replicas": 49}, [], id="large"),
    ],
)
def test_which_ranks_restart_with_a_rank(spec: dict[str, Any], said: list[str]) -> None:
    assert graph.describe_restarts(job(spec=spec).model) == said


LOSS = {"listNumber": 1, "reason": "PodDeleted", "message": "rank 1 was deleted", "ranks": "1-2"}


@pytest.mark.parametrize(
    ("status", "ranks"),
    [
        pytest.param({}, set(), id="no loss"),
        pytest.param({"lastRenewal": LOSS}, {1, 2}, id="the peer list is stale"),
        pytest.param(
            {"lastRenewal": LOSS, "listNumber": 2}, set(), id="the next peer list is active"
        ),
        pytest.param({"lastRenewal": {**LOSS, "ranks": ""}}, {0, 1, 2}, id="all"),
    ],
)
def test_which_ranks_are_in_a_re_rendezvous(status: dict[str, Any], ranks: set[int]) -> None:
    assert graph.rerendezvous_ranks(job(**status)) == ranks


def at(second: int) -> str:
    return f"2026-11-25T11:59:{second:02}Z"


BEGUN = event("Running", "all 3 ranks are running", at=at(1))


@pytest.mark.parametrize(
    ("status", "events", "steps", "shown"),
    [
        pytest.param(
            {"phase": "Pending"},
            [],
            [SeenValue(CREATED, "Pending")],
            [(CREATED, "Pending")],
            id="pending",
        ),
        pytest.param(
            {},
            [BEGUN],
            [SeenValue(at(30), "Running")],
            [(CREATED, "Pending"), (at(1), "Running")],
            id="ran before the command",
        ),
        pytest.param(
            {},
            [],
            [SeenValue(at(30), "Running")],
            [(CREATED, "Pending"), (at(30), "Running")],
            id="its events are gone",
        ),
        pytest.param(
            {},
            [BEGUN],
            [
                SeenValue(at(0), "Pending"),
                SeenValue(at(1), "Starting"),
                SeenValue(at(1), "Running"),
            ],
            [(CREATED, "Pending"), (at(1), "Starting"), (at(1), "Running")],
            id="seen from its start",
        ),
        pytest.param(
            {"phase": "Succeeded", "completionTime": at(40)},
            [BEGUN],
            [SeenValue(at(50), "Succeeded")],
            [(CREATED, "Pending"), (at(1), "Running"), (at(40), "Succeeded")],
            id="over before the command",
        ),
    ],
)
def test_the_phases_of_a_job(
    status: dict[str, Any],
    events: Sequence[Mapping[str, Any]],
    steps: list[SeenValue],
    shown: list[tuple[str, str]],
) -> None:
    found = story.list_phases(job(**status), events, PageMemory(at(30), phases=steps))
    assert [(one["time"], one["value"]) for one in found] == shown


def test_the_history_is_ordered_by_time_without_duplicates() -> None:
    told = story.build_history(
        job(
            lastRenewal={**LOSS, "time": at(10)},
            firstFailure={"rank": 1, "pod": "test-1", "exitCode": 3, "time": at(5)},
        ),
        [BEGUN, BEGUN, event("RankNotReady", "rank 1", at=at(5), type="Warning", count=2)],
        PageMemory(CREATED, lists=[SeenValue(CREATED, "0"), SeenValue(at(2), "1")]),
    )
    assert [(one["title"], one["tone"]) for one in told] == [
        ("Created", "plain"),
        ("Running", "good"),
        ("Peer list revision 1", "plain"),
        ("First failure", "problem"),
        ("RankNotReady", "problem"),
        ("Peer list revision 1 is stale: PodDeleted", "problem"),
    ]
    assert told[-1]["text"] == "rank 1 was deleted; ranks 1-2 restart with the next peer list"
    assert told[-2]["text"] == "rank 1 (2 times)"
    assert told[-3]["text"] == "rank 1 (test-1), exit code 3"


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ("2", "rank 2 restarts with the next peer list"),
        ("", "all ranks restart with the next peer list"),
    ],
)
def test_a_loss_names_the_ranks_that_restart(ranks: str, text: str) -> None:
    lost = job(lastRenewal={**LOSS, "time": at(10), "message": "", "ranks": ranks})
    assert story.build_history(lost, [], PageMemory(CREATED))[-1]["text"] == text


def test_a_loss_with_an_event_is_shown_once() -> None:
    lost = job(lastRenewal={**LOSS, "time": at(10)})
    event_of_it = event("PodDeleted", "rank 1 is being deleted", at=at(10), type="Warning")
    told = story.build_history(lost, [event_of_it], PageMemory(CREATED))
    assert [one["title"] for one in told] == ["Created", "PodDeleted"]
    before = event("PodDeleted", "rank 2 is being deleted", at=at(9), type="Warning")
    titles = [one["title"] for one in story.build_history(lost, [before], PageMemory(CREATED))]
    assert titles == ["Created", "PodDeleted", "Peer list revision 1 is stale: PodDeleted"]


def test_the_memory_of_a_job() -> None:
    seen = PageMemory("")
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


def test_a_long_curve_is_thinned_and_keeps_its_last_point() -> None:
    seen = PageMemory("")
    for number in range(memory.MOST_POINTS + 1):
        reported = {"iteration": number, "time": f"{NOW + timedelta(seconds=number):%FT%TZ}"}
        seen.see(job(progress=reported), NOW)
    kept = [point["iteration"] for point in seen.points]
    assert kept == list(range(0, memory.MOST_POINTS + 1, 2))
    assert memory.thin_curve([{"at": 1}, {"at": 2}]) == [{"at": 1}, {"at": 2}]


@pytest.mark.parametrize(
    ("code", "fell"),
    [
        pytest.param(137, [set(), {0}, {0}, set()], id="killed"),
        pytest.param(85, [set(), set(), set(), set()], id="a re-rendezvous"),
    ],
)
def test_a_failure_is_remembered_for_some_seconds(code: int, fell: list[set[int]]) -> None:
    ends, before = Ends(), pod(0)
    after = pod(0, restartCount=1, lastState=ended(code))
    seen = [ends.see([before], 0), ends.see([after], 1), ends.see([after], 4), ends.see([after], 6)]
    assert seen == fell


def test_failures_before_the_command_started_are_ignored() -> None:
    assert not Ends().see([pod(0, restartCount=3, lastState=ended(1))], 0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a\n b", "a b", id="lines"),
        pytest.param("\x1b[33mWARN\x1b[0m: old", "WARN: old", id="colours"),
        pytest.param("x" * 301, f"{'x' * 299}…", id="long"),
    ],
)
def test_messages_of_programs_are_short_in_the_history(text: str, said: str) -> None:
    assert shorten_text(text) == said
    failed = job(firstFailure={"rank": 1, "pod": "p", "signal": 9, "message": text, "time": at(5)})
    (_, first) = story.build_history(failed, [], PageMemory(CREATED))
    assert len(first["text"]) <= 300
    assert "\x1b" not in first["text"]
