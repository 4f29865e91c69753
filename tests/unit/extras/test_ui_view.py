"""The data of a job, its pods and events that `ui` shows."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from dijob.api.recorded import find_owner
from dijob.cli.watching.view import Snapshot
from dijob.client import Job, RankPod
from dijob.names import ANNOTATION_ENDED, MAX_REPLICAS
from dijob_extras.ui.memory import PageMemory
from dijob_extras.ui.states import State, StateKind, of_pod, without_pod
from dijob_extras.ui.view import Seen, job_page, job_row
from samples.builders import tasks_body
from unit.extras.seen import CREATED, condition, ended, event, job, pod

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
RUNS: dict[str, Any] = {"running": {}}
GATE = {"initContainerStatuses": [{"name": "dijob-gate", "state": RUNS}]}


def with_status(one: RankPod, **status: Any) -> RankPod:
    return replace(one, body={**one.body, "status": {**one.body["status"], **status}})


def unscheduled() -> RankPod:
    one = pod(0, state={"waiting": {}})
    return replace(one, body={**one.body, "spec": {}, "status": {"phase": "Pending"}})


def deleted() -> RankPod:
    one = pod(0)
    meta = {**one.meta, "deletionTimestamp": CREATED}
    return replace(one, body={**one.body, "metadata": meta})


STATES = [
    pytest.param(pod(0), False, State(StateKind.READY, "Ready"), id="ready"),
    pytest.param(
        pod(0, state=RUNS),
        False,
        State(StateKind.WAITING, "Running, not Ready yet"),
        id="not ready yet",
    ),
    pytest.param(pod(0, state=ended(0)), False, State(StateKind.DONE, "Completed"), id="succeeded"),
    pytest.param(
        pod(0, state=ended(137)),
        False,
        State(StateKind.FAILED, "Exit code 137 (Error)"),
        id="just killed",
    ),
    pytest.param(
        pod(0, state=RUNS, lastState=ended(137)),
        False,
        State(StateKind.FAILED, "Restarted after exit code 137"),
        id="runs again, not ready",
    ),
    pytest.param(
        pod(0, lastState=ended(137)), False, State(StateKind.READY, "Ready"), id="healed long ago"
    ),
    pytest.param(
        pod(0, lastState=ended(137)),
        True,
        State(StateKind.FAILED, "Restarted after exit code 137"),
        id="ready a moment after it was killed",
    ),
    pytest.param(
        pod(0, state=ended(85)),
        False,
        State(StateKind.RENEWING, "Restarting with the next peer list"),
        id="exited for a re-rendezvous",
    ),
    pytest.param(
        pod(0, state=RUNS, lastState=ended(85)),
        False,
        State(StateKind.RENEWING, "Restarted, not Ready yet"),
        id="runs again after a re-rendezvous",
    ),
    pytest.param(
        pod(0, lastState=ended(85)),
        True,
        State(StateKind.READY, "Ready"),
        id="ready after a re-rendezvous",
    ),
    pytest.param(
        pod(0, state={"waiting": {"reason": "ImagePullBackOff"}}),
        False,
        State(StateKind.FAILED, "ImagePullBackOff"),
        id="no image",
    ),
    pytest.param(
        pod(0, state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended(1)),
        False,
        State(StateKind.FAILED, "CrashLoopBackOff after exit code 1"),
        id="waits to restart",
    ),
    pytest.param(
        with_status(pod(0, state={"waiting": {"reason": "PodInitializing"}}), **GATE),
        False,
        State(StateKind.WAITING, "Waiting for the peer list"),
        id="gate",
    ),
    pytest.param(
        unscheduled(), False, State(StateKind.WAITING, "Not scheduled yet"), id="unscheduled"
    ),
    pytest.param(deleted(), False, State(StateKind.RENEWING, "Pod is terminating"), id="deleted"),
]


@pytest.mark.parametrize(("one", "fell", "state"), STATES)
def test_the_state_of_a_rank(one: RankPod, fell: bool, state: State) -> None:
    assert of_pod(one, fell) == state


@pytest.mark.parametrize(
    ("status", "state"),
    [
        pytest.param({}, State(StateKind.FAILED, "Lost: its pod is gone"), id="lost"),
        pytest.param(
            {"addressList": None, "phase": "Pending"},
            State(StateKind.ABSENT, "No pod yet"),
            id="not created yet",
        ),
        pytest.param({"addressList": {"size": 1}}, State(StateKind.ABSENT, "No pod yet"), id="new"),
        pytest.param({"succeededRanks": "0-1"}, State(StateKind.DONE, "Completed"), id="succeeded"),
        pytest.param(
            {"phase": "Failed"},
            State(StateKind.STOPPED, "Stopped when the job ended; its pod was deleted"),
            id="job finished",
        ),
        pytest.param(
            {"phase": "Failed", "firstFailure": {"rank": 1, "exitCode": 3, "reason": "Error"}},
            State(StateKind.FAILED, "Exit code 3 (Error); its pod was deleted"),
            id="the rank that failed",
        ),
        pytest.param(
            {"phase": "Failed", "firstFailure": {"rank": 1, "reason": "Evicted"}},
            State(StateKind.FAILED, "Failed (Evicted); its pod was deleted"),
            id="a pod that failed",
        ),
        pytest.param({"phase": "Suspended"}, State(StateKind.ABSENT, "Suspended"), id="suspended"),
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
        pytest.param(job(conditions=[WHOLE[0], NOT_READY]), "recovering", id="a rank crashed"),
        pytest.param(
            job(conditions=[condition("Running", "Blocked", true=False), NOT_READY]),
            "problem",
            id="a rank cannot start",
        ),
        pytest.param(job(phase="Failed"), "problem", id="failed"),
        pytest.param(job(phase="Succeeded"), "good", id="succeeded"),
        pytest.param(job(phase=""), "waiting", id="no operator yet"),
        pytest.param(
            job(conditions=[condition("AddressesReady", "Gathering", true=False)], phase="Pending"),
            "waiting",
            id="starting",
        ),
    ],
)
def test_the_tone_of_a_job(seen: Job, tone: str) -> None:
    assert job_row(seen)["tone"] == tone


def test_a_row_of_the_list() -> None:
    seen = job(message="all 3\nranks are running", progress={"line": "iter 7"}, restarts=2)
    assert job_row(seen) == {
        "namespace": "ns",
        "name": "test",
        "phase": "Running",
        "tone": "waiting",
        "message": "all 3 ranks are running",
        "ready": 3,
        "desired": 3,
        "restarts": 2,
        "progress": "iter 7",
        "created": CREATED,
        "cause": "",
        "ended": "",
        "owner": "",
        "image": "x",
        "command": "a",
        "gpus": 0,
    }


@pytest.mark.parametrize(
    ("main", "shown"),
    [
        pytest.param({"args": ["--lr", "1"]}, "a --lr 1", id="arguments"),
        pytest.param(
            {"command": ["sh", "-c", "cd x\npython3 y.py"]}, "sh -c cd x python3 y.py", id="script"
        ),
        pytest.param({"command": ["b" * 200]}, "b" * 119 + "…", id="long"),
        pytest.param({"command": None}, "", id="of the image"),
    ],
)
def test_a_row_has_the_first_words_of_the_command(main: dict[str, Any], shown: str) -> None:
    seen = job()
    seen.body["spec"]["template"]["spec"]["containers"][0] |= main
    assert job_row(seen)["command"] == shown


@pytest.mark.parametrize(
    ("meta", "owner"),
    [
        pytest.param({}, "", id="unknown"),
        pytest.param({"labels": {"owner": "ada", "user": "eve"}}, "ada", id="a label"),
        pytest.param({"labels": {"user": "eve"}}, "eve", id="another label"),
        pytest.param(
            {
                "labels": {"owner": "ada"},
                "ownerReferences": [
                    {"kind": "ConfigMap", "name": "x"},
                    {"kind": "Workflow", "name": "train", "controller": True},
                ],
            },
            "Workflow/train",
            id="an object",
        ),
    ],
)
def test_the_owner_of_a_job(meta: dict[str, Any], owner: str) -> None:
    body = job().body
    assert find_owner({**body["metadata"], **meta}) == owner


def test_the_message_leaves_out_that_no_pod_could_be_evicted() -> None:
    none = "ranks 0-7: Unschedulable: 0/2 nodes are available: 2 node(s) didn't match Pod's node"
    more = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    shown = job_row(job(message=f"{none} affinity/selector. {more} rank 8: pending"))["message"]
    assert shown == f"{none} affinity/selector. rank 8: pending"


def test_a_row_of_a_failed_job_has_the_first_failure() -> None:
    first = {"rank": 1, "exitCode": 1, "message": "KeyError: 'reward'"}
    assert job_row(job(phase="Failed", firstFailure=first))["cause"] == (
        "Rank 1 exited 1: KeyError: 'reward'"
    )


BEGUN = event("Running", "all 3 ranks are running")


def seen_page(**more: Any) -> dict[str, Any]:
    pods = [pod(0), pod(1, state=RUNS, lastState=ended(137), restartCount=1)]
    conditions = [WHOLE[0], NOT_READY]
    now = Snapshot(job(conditions=conditions, message="rank 1 crashed"), pods, [BEGUN])
    return job_page(Seen(replace(now, **more), PageMemory(CREATED), NOW))


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
        "state": "Restarted after exit code 137",
        "task": "",
        "pod": "test-1",
        "node": "n1",
        "ip": "10.0.0.1",
        "restarts": 1,
        "list": 1,
        "again": "rank 2 restarts with it",
        "use": "",
    }
    assert (found["graph"]["up"], found["graph"]["total"]) == (0, 3)
    assert found["advice"].startswith("No action is needed: the job recovers by itself")
    assert found["failure"] is None
    assert found["logRank"] == 0
    assert [(one["type"], one["problem"]) for one in found["conditions"]] == [
        ("Running", False),
        ("PeersReady", True),
    ]


def test_a_lost_rank_shows_its_task() -> None:
    body = tasks_body()
    status = {"phase": "Running", "desired": 4, "readyReplicas": 3}
    seen = Snapshot(Job({**body, "status": status}), [pod(0, task="learner")], [])
    ranks = job_page(Seen(seen, PageMemory(CREATED), NOW))["ranks"]
    assert [one["task"] for one in ranks] == ["learner", "evaluator", "collector", "collector"]
    assert [bool(one["pod"]) for one in ranks] == [True, False, False, False]


def stopped(rank: int, code: int, *, at: str, kept: bool = False, **before: Any) -> RankPod:
    """Return the pod of a rank whose program ended at a time, in a job that ended at CREATED."""
    end = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": at}}
    one = pod(rank, state=end, **before)
    notes = {ANNOTATION_ENDED: "why"} if kept else {}
    return replace(one, body={**one.body, "metadata": {**one.meta, "annotations": notes}})


LATER, EARLIER = "2026-11-25T11:58:03Z", "2026-11-25T11:57:59Z"
UNSEEN = {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": None}


@pytest.mark.parametrize(
    ("one", "state"),
    [
        pytest.param(
            stopped(0, 1, at=EARLIER),
            State(StateKind.FAILED, "Exit code 1 (Error)"),
            id="failed before the job ended",
        ),
        pytest.param(
            stopped(0, 143, at=LATER),
            State(StateKind.STOPPED, "Stopped when the job ended"),
            id="stopped because the job ended",
        ),
        pytest.param(
            stopped(0, 0, at=LATER), State(StateKind.DONE, "Completed"), id="completed later"
        ),
        pytest.param(
            stopped(0, 1, at=LATER, kept=True),
            State(StateKind.FAILED, "Exit code 1 (Error)"),
            id="kept for its log",
        ),
        pytest.param(
            stopped(0, 85, at=EARLIER),
            State(StateKind.STOPPED, "Stopped when the job ended"),
            id="during a re-rendezvous",
        ),
    ],
)
def test_the_state_of_a_rank_in_a_job_that_has_ended(one: RankPod, state: State) -> None:
    assert of_pod(one, False, CREATED) == state


def test_a_pod_that_waited_to_restart_shows_the_exit_code_of_its_program() -> None:
    """The kubelet reports ContainerStatusUnknown (137) for it."""
    one = stopped(0, 1, at=LATER, kept=True, lastState=ended(3))
    one.body["status"]["containerStatuses"][0]["state"] = {"terminated": UNSEEN}
    assert of_pod(one, False, CREATED) == State(StateKind.FAILED, "Exit code 3 (Error)")
    # Without the operator's mark, the node has lost the container.
    lost = replace(one, body={**one.body, "metadata": {**one.meta, "annotations": {}}})
    assert of_pod(lost, False).words == "Exit code 137 (ContainerStatusUnknown)"


def test_the_log_of_the_first_failure_is_opened() -> None:
    failed = job(phase="Failed", firstFailure={"rank": 2, "exitCode": 1})
    assert seen_page(job=failed)["logRank"] == 2
    assert seen_page(job=job(phase="Failed"))["logRank"] == 1


def test_a_problem_that_needs_an_action_comes_first() -> None:
    blocked = condition("Running", "Blocked", true=False)
    found = seen_page(job=job(conditions=[NOT_READY, blocked]))
    assert found["advice"].startswith("What to do: correct the image")


def test_the_page_shows_how_each_rank_has_spent_its_time() -> None:
    figures = {"since": CREATED, "activity": "Running", "activitySince": "2026-11-25T11:59:00Z"}
    found = seen_page(job=job(goodput={**figures, "startingSeconds": 60}))["goodput"]
    assert found["sentence"] == "goodput 50 %: 50 % starting"
    assert [one["rank"] for one in found["ranks"]] == [0, 1, 2]
    assert {sum(part["seconds"] for part in one["parts"]) for one in found["ranks"]} == {120}


def test_an_ended_job_of_an_older_version_has_no_goodput() -> None:
    ends = [condition("Succeeded", "AllRanksSucceeded")]
    assert seen_page(job=job(conditions=ends, phase="Succeeded"))["goodput"] is None


def test_a_rank_with_a_stale_peer_list_is_not_shown_as_ready() -> None:
    loss = {"listNumber": 1, "reason": "PodDeleted", "ranks": "1-2"}
    now = Snapshot(job(lastRenewal=loss), [pod(0), pod(2)])
    found = job_page(Seen(now, PageMemory(CREATED), NOW))
    assert [(one["kind"], one["state"]) for one in found["ranks"]] == [
        ("ready", "Ready"),
        ("failed", "Lost: its pod is gone"),
        ("renewing", "Running; restarts with the next peer list"),
    ]
    assert (found["ready"], found["desired"]) == (1, 3)
    assert (found["graph"]["up"], found["graph"]["total"]) == (0, 3)


def test_without_permission_to_list_pods_ranks_are_unknown() -> None:
    why = 'pods is forbidden: User "x" cannot list resource "pods" in API group ""'
    found = seen_page(pods=[], unseen=(why,))
    assert {one["state"] for one in found["ranks"]} == {"Unknown: no permission to list pods"}
    assert found["unseen"] == [why]


def test_an_invalid_job_has_a_page() -> None:
    broken = job(spec={"replicas": -1}, desired=0, phase="Pending")
    found = job_page(Seen(Snapshot(broken), PageMemory(CREATED), NOW))
    assert found["ranks"] == []
    assert "the spec is invalid" in found["graph"]["note"]


def test_a_status_with_ten_million_ranks_has_a_page() -> None:
    """R7: a status can be edited by hand, and the ranks used up the memory."""
    found = seen_page(job=job(desired=10**7))
    assert len(found["ranks"]) == MAX_REPLICAS
