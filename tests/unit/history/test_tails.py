"""Which logs the history reads, when, and how much of them it keeps."""

import asyncio
from typing import Any

import pytest
from cluster.waiting import until_async
from dijob import names
from dijob.history.tails import ATTEMPTS, MOST_RANKS, ReadTail, TailLimits
from dijob.history.views import ProgramRun, view_pod
from dijob.kube.api import RequestError
from dijob.pod import RENEWAL_CODE
from fakes.history_lab import OWNER, Body, HistoryLab
from samples.builders import pod_body

PATH = "/api/v1/namespaces/ns/pods/job-0/log"


def pod(rank: int = 0, restarts: int = 0, deleting: bool = False, **states: Any) -> Body:
    owner = {"kind": "DIJob", "apiVersion": names.API_VERSION, "name": "job", "uid": "u1"}
    meta: Body = {
        "name": f"job-{rank}",
        "namespace": "ns",
        "uid": f"p{rank}",
        "resourceVersion": "1",
        "labels": {names.LABEL_RANK: str(rank)},
        "ownerReferences": [{**owner, "controller": True}],
    }
    if deleting:
        meta["deletionTimestamp"] = "2026-11-27T10:00:00Z"
    status = {"name": "di-container", "restartCount": restarts, **states}
    containers = [{"name": "sidecar"}, {"name": "di-container"}]
    return {
        "metadata": meta,
        "spec": {"containers": containers},
        "status": {"containerStatuses": [{"name": "sidecar"}, status]},
    }


def ended(code: int) -> Body:
    return {"terminated": {"exitCode": code}}


RUNNING: Body = {"running": {}}
RUNS: dict[str, tuple[Body, list[ProgramRun]]] = {
    "not started": (pod(state={"waiting": {}}), []),
    "running": (pod(state=RUNNING), []),
    "succeeded": (pod(state=ended(0)), [ProgramRun("p0/0", exit_code=0)]),
    "failed": (pod(state=ended(1)), [ProgramRun("p0/0", exit_code=1)]),
    "failed, and runs again": (
        pod(restarts=1, state=RUNNING, lastState=ended(1)), [ProgramRun("p0/0", True, 1)],
    ),
    "restarted on purpose": (pod(restarts=1, state=RUNNING, lastState=ended(RENEWAL_CODE)), []),
    "failed twice": (
        pod(restarts=1, state=ended(2), lastState=ended(1)),
        [ProgramRun("p0/0", True, 1), ProgramRun("p0/1", exit_code=2)],
    ),
    "stopped": (pod(state=RUNNING, deleting=True), [ProgramRun("p0/0/deleting", ends=False)]),
}  # fmt: skip


@pytest.mark.parametrize(("body", "runs"), RUNS.values(), ids=RUNS)
def test_the_runs_of_a_pod_that_have_a_log(body: Body, runs: list[ProgramRun]) -> None:
    view = view_pod(body)
    assert list(view.runs) == runs
    assert (view.owner, view.rank, view.container) == (OWNER, 0, "di-container")


def test_the_log_is_not_that_of_a_proxy_that_a_service_mesh_puts_first() -> None:
    body = pod_body()
    (main,) = (one for one in body["spec"]["containers"] if one["name"] == "di-container")
    main["name"] = "train"
    body["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    assert view_pod(body).container == "train"


@pytest.mark.parametrize("label", ["", "-1", "1500", "99999999999", "x"])
def test_a_pod_with_an_invalid_rank_is_of_no_rank(label: str) -> None:
    body = pod(state=ended(0))
    body["metadata"]["labels"] = {names.LABEL_RANK: label}
    assert view_pod(body).rank == -1


async def read(lab: HistoryLab, *bodies: Body) -> list[ReadTail]:
    """Show pods, and return the logs that are read."""
    found: list[ReadTail] = []
    lab.tails.on_read = found.append
    lab.tails.saw(tuple(view_pod(body) for body in bodies))
    work = asyncio.ensure_future(lab.tails.run())

    async def missing() -> str:
        return "logs" if lab.tails.is_reading(OWNER) else ""

    await until_async("the logs are read", missing, 10)
    work.cancel()
    return found


@pytest.fixture
def lab(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> HistoryLab:
    monkeypatch.setattr("dijob.history.tails.PAUSE_SECONDS", 0.0)
    return HistoryLab(tmp_path / "history.db")


async def test_each_run_is_read_once(lab: HistoryLab) -> None:
    lab.server.logs[PATH] = b"a\nb\n"
    failed = pod(restarts=1, state=RUNNING, lastState=ended(1))
    (first,) = await read(lab, failed)
    assert (first.run, first.tail.text, first.tail.failed) == ("p0/0", "a\nb\n", True)
    assert lab.server.read[0][1]["previous"] == "true"
    assert await read(lab, failed) == []
    (second,) = await read(lab, pod(restarts=1, state=ended(0), lastState=ended(1)))
    assert (second.run, second.tail.exit_code, second.tail.failed) == ("p0/1", 0, False)
    assert "previous" not in lab.server.read[1][1]


CUTS = {
    "short": (b"a\n" * 10, "a\n" * 10, False),
    "long": (b"begin" + b"x\n" * 2000, "x\n" * 499, True),
    "one long line": (b"y" * 3000, "y" * 1000, True),
    "no text": (b"\xff\n", "\N{REPLACEMENT CHARACTER}\n", False),
}


@pytest.mark.parametrize(("given", "kept", "cut"), CUTS.values(), ids=CUTS)
async def test_the_end_of_a_log_is_kept(
    lab: HistoryLab, given: bytes, kept: str, cut: bool
) -> None:
    lab.tails.limits = TailLimits(most_bytes=1000, most_lines=10_000)
    lab.server.logs[PATH] = given
    (found,) = await read(lab, pod(state=ended(0)))
    assert (found.tail.text, found.tail.cut) == (kept, cut)


ERRORS = {
    "gone": ([RequestError(404, "NotFound", "")], 1, 0),
    "no such container": ([RequestError(400, "BadRequest", "")], 1, 0),
    "a moment": ([RequestError(500, "", "")], 2, 1),
    "always": ([RequestError(0, "", "")] * ATTEMPTS, ATTEMPTS, 0),
}


@pytest.mark.parametrize(("errors", "attempts", "logs"), ERRORS.values(), ids=ERRORS)
async def test_a_log_that_cannot_be_read_is_given_up(
    lab: HistoryLab, errors: list[RequestError], attempts: int, logs: int
) -> None:
    lab.server.errors = list(errors)
    assert len(await read(lab, pod(state=ended(0)))) == logs
    assert len(lab.server.read) == attempts


async def test_large_jobs_keep_the_logs_of_low_and_of_failed_ranks(lab: HistoryLab) -> None:
    found = await read(
        lab,
        pod(MOST_RANKS - 1, state=ended(0)),
        pod(MOST_RANKS, state=ended(0)),
        pod(MOST_RANKS + 1, state=ended(1)),
    )
    assert sorted(one.tail.rank for one in found) == [MOST_RANKS - 1, MOST_RANKS + 1]


async def test_no_log_is_read_if_none_is_kept(lab: HistoryLab) -> None:
    lab.tails.limits = TailLimits(most_bytes=0)
    assert await read(lab, pod(state=ended(0))) == []


async def test_a_log_that_the_store_has_is_not_read_again(lab: HistoryLab) -> None:
    lab.tails.known.add("p0/0")
    assert await read(lab, pod(state=ended(0))) == []
    lab.tails.forget("p0")
    assert lab.tails.known == set()
