"""The object of a job's engine: created before the pods, resized before a lost rank is re-created,
and deleted when the job is suspended.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.core.actions import (
    ChangeScheduling,
    CreatePod,
    CreateScheduling,
    DeleteScheduling,
    EngineGang,
)
from dijob.core.observed.views import ApiRejection, EngineView, Observed, RejectionCause
from dijob.core.observed.views import SchedulingObject as Found
from dijob.names import Engine
from dijob.reasons import GangScheduled
from samples.builders import (
    NOW,
    all_run,
    changed,
    job,
    later,
    listed,
    observed,
    plan,
    running,
    says,
    then,
    view,
)

NATIVE: dict[str, Any] = {"scheduling": {"engine": "Native"}}
GROUP = EngineGang(Engine.NATIVE, "job", 3)


def group(count: int = 3, name: str = "job", **fields: Any) -> Found:
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    return Found(**{"name": name, "uid": "g", "owner": "", "spec": spec, **fields})


def seen(*pods: Any, found: Found | None = None, **engine: Any) -> Observed:
    view_of = {"engine": Engine.NATIVE, "known": True, "found": found, **engine}
    return observed(*pods, scheduling=EngineView(**view_of))


def on_node(owner: DIJob, *ranks: int) -> list[Any]:
    return [listed(rank, owner) for rank in ranks]


def without_node(owner: DIJob, *complaints: str) -> list[Any]:
    return [
        view(rank, owner, node="", ip="", complaint=complaint)
        for rank, complaint in enumerate(complaints)
    ]


def test_the_group_is_created_before_the_pods() -> None:
    owner = job(**NATIVE)
    assert plan(owner, seen(), NOW).actions[-1] == CreateScheduling(Engine.NATIVE, "job", 3)
    created = plan(owner, seen(found=group()), NOW).actions
    pods = [action for action in created if isinstance(action, CreatePod)]
    assert len(pods) == 3
    assert {action.group for action in pods} == {GROUP}


def test_without_an_engine_pods_have_no_group() -> None:
    created = plan(job(), observed(), NOW).actions
    pods = [action for action in created if isinstance(action, CreatePod)]
    assert {action.group for action in pods} == {None}


@pytest.mark.parametrize(
    ("view_of", "reason"),
    [
        pytest.param({"known": False}, GangScheduled.Waiting, id="it has not been read yet"),
        pytest.param({"served": False}, GangScheduled.NotServed, id="the API is not served"),
    ],
)
def test_nothing_is_created_before_the_group_can_exist(
    view_of: dict[str, Any], reason: GangScheduled
) -> None:
    decided = plan(job(**NATIVE), seen(**view_of), NOW)
    assert not [one for one in decided.actions if isinstance(one, CreatePod | CreateScheduling)]
    assert says(decided)["GangScheduled"] == ("False", reason.name)
    assert decided.requeue_after >= 4


def test_a_cluster_that_does_not_serve_the_api_is_reported_with_the_command_that_shows_it() -> None:
    decided = plan(job(**NATIVE), seen(served=False), NOW)
    assert "kubectl api-resources --api-group=scheduling.k8s.io" in decided.status.message
    (found,) = (one for one in decided.status.conditions if one.type == "GangScheduled")
    assert "--runtime-config=scheduling.k8s.io/v1beta1=true" in found.message


def test_pods_wait_if_the_cluster_ignores_a_field() -> None:
    owner = job(scheduling={"engine": "Native", "topology": {"key": "rack"}})
    decided = plan(owner, seen(found=group()), NOW)
    assert not [one for one in decided.actions if isinstance(one, CreatePod)]
    assert says(decided)["GangScheduled"] == ("False", "NotSupported")


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (RejectionCause.TAKEN, "GroupNameTaken"),
        (RejectionCause.TERMINATING, "Waiting"),
        (RejectionCause.FORBIDDEN, "GroupRefused"),
    ],
    ids=["taken", "still terminating", "forbidden"],
)
def test_a_rejected_group_is_reported_and_retried(cause: RejectionCause, reason: str) -> None:
    rejected = {
        "podgroup.scheduling.k8s.io/job": ApiRejection(cause, 'podgroups "job": no', later(7))
    }
    decided = plan(job(**NATIVE), replace(seen(), rejections=rejected), NOW)
    assert not [one for one in decided.actions if isinstance(one, CreateScheduling)]
    assert says(decided)["GangScheduled"] == ("False", reason)
    assert decided.requeue_after <= 7


@pytest.mark.parametrize(
    ("spec", "succeeded", "count"),
    [
        pytest.param({}, "", 3, id="all ranks"),
        pytest.param({"minReplicas": 2}, "", 2, id="minReplicas"),
        pytest.param({}, "2", 2, id="one rank has succeeded"),
        pytest.param({"minReplicas": 2}, "2", 2, id="an elastic job after a success"),
        pytest.param({"minReplicas": 2}, "1-2", 1, id="an elastic job after two"),
        pytest.param({"scheduling": {"minAvailable": 1}}, "", 1, id="minAvailable"),
    ],
)
def test_the_size_of_a_new_group(spec: dict[str, Any], succeeded: str, count: int) -> None:
    chosen = {"scheduling": {"engine": "Native", **spec.pop("scheduling", {})}}
    status = {"succeededRanks": succeeded}
    owner = job(status=status, replicas=3, maxReplicas=3, **{**spec, **chosen})
    (new,) = (one for one in plan(owner, seen(), NOW).actions if isinstance(one, CreateScheduling))
    assert new.count == count


@pytest.mark.parametrize(
    ("there", "left", "change"),
    [
        pytest.param(3, (0, 1, 2), None, id="nothing is missing"),
        pytest.param(3, (0, 1), None, id="a rank is lost"),
        pytest.param(4, (0, 1), 3, id="a rank of a job that has shrunk is lost"),
        pytest.param(4, (0, 1, 2), None, id="a job has shrunk"),
        pytest.param(2, (0, 1), None, id="a rank of a job that has grown is lost"),
    ],
)
def test_a_group_is_resized_before_a_lost_rank_is_created(
    there: int, left: tuple[int, ...], change: int | None
) -> None:
    owner = running(**NATIVE)
    pods = on_node(owner, *left)
    _, owner = then(owner, seen(*pods, found=group(there)), 10)
    decided, _ = then(owner, seen(*pods, found=group(there)), 11)
    resized = [one.count for one in decided.actions if isinstance(one, ChangeScheduling)]
    assert resized == ([change] if change else [])
    created = [one for one in decided.actions if isinstance(one, CreatePod)]
    assert bool(created) == (len(left) < 3 and not change)


VOLCANO: dict[str, Any] = {"scheduling": {"engine": "Volcano"}}


def volcano_group(count: int) -> Found:
    return group(spec={"minMember": count})


@pytest.mark.parametrize(
    ("there", "done", "change"),
    [
        pytest.param(3, True, None, id="the pod that has succeeded counts"),
        pytest.param(3, False, 2, id="that pod is gone"),
    ],
)
def test_volcano_counts_pods_that_have_succeeded(
    there: int, done: bool, change: int | None
) -> None:
    """Rank 2 has succeeded, and rank 1 is lost."""
    owner = running(**VOLCANO)
    pods = [changed(pod, engine="Volcano") for pod in on_node(owner, 0, 1, 2)]
    engine: dict[str, Any] = {"engine": Engine.VOLCANO, "found": volcano_group(there)}
    finished = changed(pods[2], succeeded=True, phase="Succeeded")
    _, owner = then(owner, seen(pods[0], pods[1], finished, **engine), 10)
    left = [pods[0], *([finished] if done else [])]
    _, owner = then(owner, seen(*left, **engine), 11)
    decided, _ = then(owner, seen(*left, **engine), 12)
    resized = [one.count for one in decided.actions if isinstance(one, ChangeScheduling)]
    assert resized == ([change] if change else [])
    created = [one for one in decided.actions if isinstance(one, CreatePod)]
    assert bool(created) == (change is None)


@pytest.mark.parametrize("engine", [Engine.NONE, Engine.COSCHEDULING], ids=str)
def test_a_job_with_a_queue_does_not_run_outside_of_all_queues(engine: Engine) -> None:
    """The engine is the operator's, so the job is not Invalid."""
    decided = plan(job(scheduling={"queue": "team-a"}), seen(engine=engine), NOW)
    assert not [one for one in decided.actions if isinstance(one, CreatePod | CreateScheduling)]
    assert says(decided)["GangScheduled"] == ("False", "NotSupported")
    (found,) = (one for one in decided.status.conditions if one.type == "GangScheduled")
    assert f"spec.scheduling.queue is team-a, but the engine {engine}" in found.message


def test_yunikorn_needs_no_object() -> None:
    owner = job(scheduling={"engine": "YuniKorn"})
    created = plan(owner, seen(engine=Engine.YUNIKORN, known=False), NOW).actions
    pods = [action for action in created if isinstance(action, CreatePod)]
    assert {one.group for one in pods} == {EngineGang(Engine.YUNIKORN, "job", 3)}
    assert len(pods) == 3


@pytest.mark.parametrize(
    ("engine", "api", "switch"),
    [
        (Engine.VOLCANO, "scheduling.volcano.sh", "install Volcano"),
        (Engine.COSCHEDULING, "scheduling.x-k8s.io", "scheduler-plugins"),
        (Engine.KAI, "scheduling.run.ai", "install the KAI Scheduler"),
    ],
    ids=str,
)
def test_each_missing_api_is_named_with_its_command(engine: Engine, api: str, switch: str) -> None:
    owner = job(scheduling={"engine": engine})
    decided = plan(owner, seen(engine=engine, served=False), NOW)
    assert f"kubectl api-resources --api-group={api}" in decided.status.message
    (found,) = (one for one in decided.status.conditions if one.type == "GangScheduled")
    assert (found.status, found.reason) == ("False", "NotServed")
    assert switch in found.message


def test_a_group_of_a_job_without_nodes_grows() -> None:
    owner = job(**NATIVE)
    decided = plan(owner, seen(*without_node(owner, "", "", ""), found=group(2)), NOW)
    assert ChangeScheduling(Engine.NATIVE, "job", "g", 3) in decided.actions


def test_a_suspended_job_deletes_its_group_after_its_pods() -> None:
    owner = running(**NATIVE)
    pods = all_run(owner)
    _, owner = then(owner, seen(*pods, found=group()), 10, suspend=True)
    decided, owner = then(owner, seen(*pods, found=group()), 11)
    assert not [one for one in decided.actions if isinstance(one, DeleteScheduling)]
    decided, owner = then(owner, seen(found=group()), 12)
    assert decided.actions == (DeleteScheduling(Engine.NATIVE, "job", "g"),)
    assert says(decided)["GangScheduled"] == ("False", "Suspended")
    decided, owner = then(owner, seen(), 13)
    assert decided.actions == ()


@pytest.mark.parametrize(
    ("found", "resumes"),
    [(group(), False), (group(deleting=True), True), (None, True)],
    ids=["it exists", "it is being deleted", "it is gone"],
)
def test_a_job_resumes_when_its_old_group_is_deleted(found: Found | None, resumes: bool) -> None:
    owner = running(**NATIVE)
    _, owner = then(owner, seen(found=group()), 10, suspend=True)
    decided, _ = then(owner, seen(found=found), 12, suspend=False)
    assert bool(decided.status.resume_time) == resumes


UNPLACED = "Unschedulable: PodGroup job has no room for at least 3 pods"
NO_CPU = "Unschedulable: 0/2 nodes are available: 2 Insufficient cpu."


def test_a_gang_without_room_says_what_is_missing() -> None:
    owner = job(**NATIVE)
    pods = without_node(owner, UNPLACED, NO_CPU, UNPLACED)
    decided = plan(owner, seen(*pods, found=group()), NOW)
    assert says(decided)["GangScheduled"] == ("False", "NoRoom")
    assert decided.status.message == (
        "3 ranks must get nodes at the same time, and the cluster has no room for them: rank 1: "
        + NO_CPU
    )


@pytest.mark.parametrize(
    "echo",
    [
        "Unschedulable: pod group is not ready, 3 Pending, 3 minAvailable",
        "Schedulable: Pod ns/job-0 can possibly be assigned to a, once minAvailable is satisfied",
        "Unschedulable: 0/1 nodes are available: 1 optimistic rejection in PostFilter.",
    ],
    ids=["Volcano", "Volcano: there is a node", "Coscheduling"],
)
def test_only_the_pod_without_room_is_quoted(echo: str) -> None:
    owner = job(**VOLCANO)
    pods = without_node(owner, echo, NO_CPU, echo)
    decided = plan(owner, seen(*pods, engine=Engine.VOLCANO, found=volcano_group(3)), NOW)
    assert decided.status.message.endswith(f": rank 1: {NO_CPU}")


def test_a_gang_with_nodes_is_placed_and_an_ended_one_is_finished() -> None:
    owner = running(**NATIVE)
    pods = on_node(owner, 0, 1, 2)
    decided, owner = then(owner, seen(*pods, found=group()), 10)
    assert says(decided)["GangScheduled"] == ("True", "Placed")
    done = [changed(pod, succeeded=True) for pod in pods]
    decided, owner = then(owner, seen(*done, found=group()), 11)
    assert decided.status.ended
    assert says(decided)["GangScheduled"] == ("False", "Finished")
    decided, _ = then(owner, seen(*done, found=group()), 12)
    assert not [one for one in decided.actions if isinstance(one, DeleteScheduling)]
