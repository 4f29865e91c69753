"""The output of `watch` and `logs`."""

import asyncio
import io
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dijob.cli.commands.logs import Prefix, PrintOptions, options_of
from dijob.cli.errors import CliError
from dijob.cli.watching import live, view
from dijob.cli.watching.feed import Feed
from dijob.client import AsyncClient, Job, Line, NotFound, RankPod, TimedOut
from manifests import dijob
from rich.console import Console
from unit.client.kubelets import kubelets

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)


def job(topology: str = "mesh", *, spec: Any = None, **status: Any) -> Job:
    body = dijob("test", {"image": "x", "command": ["a"]}, replicas=3, **(spec or {}))
    known = {"topology": topology, "parallelWorkers": 2, "desired": 3, "phase": "Running"}
    stamps = {"startTime": "2026-11-25T11:58:30Z"}
    return Job({**body, "status": {**known, **stamps, **status}})


def pod(rank: int, ready: bool = True, task: str = "") -> RankPod:
    labels = {"diengine.opendilab.org/rank": str(rank)} | (
        {"diengine/task-name": task} if task else {}
    )
    meta = {
        "name": f"test-{rank}",
        "labels": labels,
        "annotations": {"diengine.opendilab.org/list-number": "1"},
    }
    state = {"name": "m", "ready": ready, "state": {"running": {}}, "restartCount": rank}
    return RankPod(
        {
            "metadata": meta,
            "spec": {"nodeName": "n1", "containers": [{"name": "m"}]},
            "status": {"podIP": f"10.0.0.{rank}", "containerStatuses": [state]},
        },
        rank,
    )


EVENT = {
    "metadata": {"uid": "e"},
    "type": "Normal",
    "reason": "Begun",
    "message": "all 3 ranks are running",
    "count": 1,
}
SHOWN = view.Snapshot(job(message="rank 2 is lost"), [pod(0), pod(1), pod(2, ready=False)], [EVENT])


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        pytest.param(SHOWN, "mesh, 6 of 15 connections (estimated from readiness)", id="mesh"),
        pytest.param(
            view.Snapshot(job(parallelWorkers=None), [pod(0), pod(1)]),
            "mesh, 1 of at least 3 connections (estimated from readiness)",
            id="only the program knows the number of processes (N1)",
        ),
        pytest.param(
            view.Snapshot(job("star"), [pod(0), pod(1)]),
            "star, 6 of 11 connections (estimated from readiness)",
            id="star",
        ),
        pytest.param(
            view.Snapshot(job("star"), [pod(1), pod(2)]),
            "star, 2 of 11 connections (estimated from readiness)",
            id="star without rank 0: only connections within pods",
        ),
        pytest.param(
            view.Snapshot(job(spec={"messageQueue": {"type": "redis"}})),
            "all 3 ranks connect to Redis",
            id="redis",
        ),
    ],
)
def test_edges(shown: view.Snapshot, said: str) -> None:
    assert view.edges_in_words(shown) == said


def test_the_picture_has_all_of_it() -> None:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(live.render_snapshot(SHOWN, NOW, room=9))
    text = console.export_text()
    assert "test  Running  0 of 3 ready, revision 0, restarts 0, re-rendezvous 0, 90s" in text
    assert "rank 2 is lost" in text
    assert "2 test-2 n1 10.0.0.2 Running 2 1" in " ".join(text.split())
    assert "Normal Begun: all 3 ranks are running" in text


def test_of_many_ranks_those_in_trouble_are_shown() -> None:
    pods = [pod(rank, ready=rank != 7) for rank in range(9)]
    assert [row[0] for row in view.rank_rows(pods, 3)] == ["0", "1", "7"]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(live.render_snapshot(view.Snapshot(job(), pods), NOW, room=3))
    assert "and 6 more" in console.export_text()


def test_lines_where_there_is_no_terminal() -> None:
    shown = view.Snapshot(SHOWN.job, [pod(0, task="learner")], [EVENT])
    assert list(view.change_lines(shown, NOW).values()) == [
        "test: Running: rank 2 is lost",
        "rank 0 (learner): Ready on n1, 10.0.0.0, revision 1",
        "event: Begun: all 3 ranks are running",
    ]


def test_missing_permissions_are_reported() -> None:
    why = 'events is forbidden: User "x" cannot list resource "events"'
    shown = view.Snapshot(SHOWN.job, unseen=(why,))
    assert view.header_lines(shown, NOW)[-1] == f"not shown: {why}"
    assert list(view.change_lines(shown, NOW).values())[-1] == f"not shown: {why}"


def test_a_line_of_a_log_has_its_rank() -> None:
    line = Line(1_500_000_000, 7, "test-7", "hello")
    assert Prefix(terminal=True).of(None, 12).put(line) == "\x1b[92m[ 7]\x1b[0m hello"
    assert (
        Prefix(timestamps=True).of(frozenset({7}), 12).put(line) == "1970-01-01T00:00:01.500Z hello"
    )


GIVEN: PrintOptions = {
    "raw": False,
    "rank": None,
    "task": "",
    "every": False,
    "follow": False,
    "previous": False,
    "since": None,
    "tail": None,
    "timestamps": False,
}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"rank": "5"}, "test has no rank 5: its ranks are 0 to 2", id="rank"),
        pytest.param({"rank": "x"}, "specify ranks in the form 0-2,5", id="no rank"),
        pytest.param({"task": "learner"}, "no task learner: it has no tasks", id="task"),
        pytest.param(
            {"every": True, "rank": "0"},
            "cannot be combined with --rank or --task",
            id="all and one",
        ),
        pytest.param(
            {"follow": True, "previous": True}, "cannot be combined with --follow", id="previous"
        ),
    ],
)
def test_wrong_options_of_logs(given: Any, words: str) -> None:
    with pytest.raises(CliError, match=words):
        options_of({**GIVEN, **given}, job())


async def test_a_missing_job_is_reported_even_if_its_pods_are_received_first() -> None:
    class Late(Feed):
        async def _watch_job(self) -> None:
            await self._changed.wait()
            for _ in range(5):
                await asyncio.sleep(0)
            raise NotFound(404, "NotFound", "there is no DIJob test")

        async def _watch_pods(self) -> None:
            self._changed.set()

        async def _watch_events(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(NotFound, match="there is no DIJob test"):
        async for _ in Late(AsyncClient(), "test").snapshots():
            pass


def test_a_connection_that_fails_is_shown() -> None:
    """H12."""
    shown = view.Snapshot(job(), troubles=("the watch of pods keeps failing",))
    said = "may be out of date: the watch of pods keeps failing"
    assert view.header_lines(shown, NOW)[-1] == said
    assert said in view.change_lines(shown, NOW).values()


async def test_a_watch_has_a_bound(tmp_path: Path) -> None:
    """R11: `run --watch` ignored --timeout."""
    async with kubelets(tmp_path) as (_, kubeconfig), AsyncClient(kubeconfig) as client:
        with pytest.raises(TimedOut, match=r"test has not ended after 0\.1 s"):
            await live.watch_job(client, "test", 0.1)


async def test_a_line_of_the_job_or_of_a_rank_has_the_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with kubelets(tmp_path) as (cluster, kubeconfig), AsyncClient(kubeconfig) as client:
        await cluster.start(0)
        watch = asyncio.ensure_future(live.watch_job(client, "test"))
        lines = list[str]()
        async with asyncio.timeout(10):
            while len(lines) < 2:
                await asyncio.sleep(0.01)
                lines += capsys.readouterr().out.splitlines()
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    assert [re.sub(r"^\d\d:\d\d:\d\dZ ", "TIME ", line)[:12] for line in lines] == [
        "TIME test: P",
        "TIME rank 0:",
    ], lines


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        pytest.param(
            {"lastTimestamp": "2026-11-25T12:00:00Z"},
            "event 2026-11-25T12:00:00Z: Begun: all 3 ranks are running",
            id="new",
        ),
        pytest.param(
            {"lastTimestamp": "2026-11-25T11:59:59Z"},
            "event 2026-11-25T11:59:59Z (before this watch): Begun: all 3 ranks are running",
            id="old",
        ),
        pytest.param(
            {"lastTimestamp": None, "eventTime": "2026-11-25T12:00:01.5Z"},
            "event 2026-11-25T12:00:01Z: Begun: all 3 ranks are running",
            id="with the newer fields",
        ),
        pytest.param({}, "event: Begun: all 3 ranks are running", id="without a time"),
    ],
)
def test_an_event_has_its_time_and_an_old_one_is_marked(fields: Any, line: str) -> None:
    """N3: old events were printed as if they had just happened."""
    shown = view.Snapshot(job(), events=[{**EVENT, **fields}])
    assert list(view.change_lines(shown, NOW).values())[-1] == line


def test_the_events_of_a_live_view_say_how_long_ago_they_were() -> None:
    """N3."""
    event = {**EVENT, "lastTimestamp": "2026-11-25T11:57:00Z"}
    shown = view.Snapshot(job(), events=[event, EVENT])
    assert view.event_lines(shown, NOW) == [
        "3m ago: Normal Begun: all 3 ranks are running",
        "Normal Begun: all 3 ranks are running",
    ]


def test_the_header_names_another_controller_that_manages_the_job() -> None:
    of = job(spec={"managedBy": "kueue.x-k8s.io/multikueue"}, message="all 3 ranks are running")
    lines = view.header_lines(view.Snapshot(of, [], []), NOW)
    assert "managed by kueue.x-k8s.io/multikueue, which writes this status" in lines
