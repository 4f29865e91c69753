"""C18: a job that is being deleted and still exists. Its status stays accurate and names the
finalizer that blocks the deletion.
"""

from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import format_time
from dijob.core.actions import DeletePod, ForceDeletePod
from dijob.core.observed.termination import Termination
from samples.builders import (
    NOW,
    changed,
    conditions_of,
    job_body,
    later,
    listed,
    observed,
    plan,
    running,
    says,
    stored,
    tasks_body,
)
from simulator.simulated import World, simulated

virtual = pytest.mark.virtual_time
HOLD = "example.com/hold"


def going(owner: DIJob, *finalizers: str) -> DIJob:
    """Return the job after its deletion was requested."""
    update = {"deletion_timestamp": format_time(NOW), "finalizers": finalizers}
    return owner.model_copy(update={"metadata": owner.metadata.model_copy(update=update)})


def test_a_quick_deletion_costs_no_write() -> None:
    owner = going(running())
    decided = plan(owner, observed(), later(1))
    assert (decided.status, decided.actions, decided.requeue_after) == (owner.status, (), 2.0)


def test_a_held_job_without_pods_is_not_running() -> None:
    """C18: deleted in the foreground, and blocked by a foreign finalizer."""
    decided = plan(going(running(), "foregroundDeletion", HOLD), observed(), later(4))
    assert decided.actions == ()
    assert decided.status.phase == "Terminating"
    assert (decided.status.replicas, decided.status.ready_replicas) == (0, 0)
    assert says(decided)["Running"] == ("False", "Terminating")
    assert says(decided)["Terminating"] == ("True", "HeldByFinalizer")
    assert decided.status.message == (
        f"the job is being deleted: finalizer {HOLD} blocks its deletion until the controller that"
        " set the finalizer removes it; no pods are left"
    )
    assert [event.reason for event in decided.events if event.warning] == ["HeldByFinalizer"]


def test_a_held_job_reports_that_its_pods_still_run() -> None:
    """C18: deleted in the background, so the pods stay as long as the job."""
    owner = going(running(), HOLD)
    decided = plan(owner, observed(*(listed(rank) for rank in range(3))), later(4))
    assert decided.status.phase == "Terminating"
    assert says(decided)["Running"] == ("True", "Begun")
    assert decided.status.message.endswith("; all 3 ranks are running")
    lost = plan(owner, observed(listed(0), listed(2)), later(5))
    assert lost.actions == ()
    assert lost.status.renewals == 0
    assert (lost.status.replicas, lost.status.ready_replicas) == (2, 2)
    assert lost.status.message.endswith("; 2 pods still running")


def test_pods_that_a_foreground_deletion_waits_for_are_named() -> None:
    """C18, C41."""
    left = listed(
        1, deleting=True, termination=Termination(format_time(later(300)), 300, ("proxy",))
    )
    decided = plan(going(running(), "foregroundDeletion"), observed(left), later(4))
    assert says(decided)["Terminating"] == ("True", "WaitsForPods")
    assert "1 pod still terminating (pod job-1: container proxy was still" in decided.status.message


def test_a_foreground_deletion_does_not_wait_for_a_lost_node() -> None:
    """C17: the pod would stay until the node is removed."""
    gone = Termination(format_time(later(-60)))
    left = listed(1, deleting=True, node_lost=True, termination=gone)
    decided = plan(going(running(), "foregroundDeletion"), observed(left), later(4))
    assert decided.actions == (ForceDeletePod("job-1", "uid-1"),)


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_failures_of_a_held_job_count_and_end_it(policy: str) -> None:
    """C18: the kubelet restarts the programs repeatedly, or the pods fail."""
    owner = going(running(pod={"restartPolicy": policy}, backoffLimit=1), HOLD)
    pods = [listed(rank, owner) for rank in range(3)]
    once = changed(pods[1], failures=1, phase="Failed" if policy == "Never" else "Running")
    decided = plan(owner, observed(pods[0], once, pods[2]), later(4))
    assert decided.status.restarts == 1
    owner = stored(owner, decided)
    twice = changed(pods[0], failures=1, phase="Failed" if policy == "Never" else "Running")
    decided = plan(owner, observed(twice, once, pods[2]), later(5))
    assert decided.status.phase == "Failed"
    assert says(decided)["Failed"] == ("True", "BackoffLimitExceeded")
    owner = stored(owner, decided)
    cleaned = plan(owner, observed(twice, once, pods[2]), later(6))
    assert DeletePod("job-2", "uid-2") in cleaned.actions
    assert HOLD in cleaned.status.message
    assert "backoffLimit is 1" in conditions_of(cleaned)["Failed"].message


def test_a_held_job_past_its_time_to_live_is_not_deleted_repeatedly() -> None:
    owner = running(ttlSecondsAfterFinished=0)
    done = [listed(rank, phase="Succeeded", succeeded=True, ready=False) for rank in range(3)]
    owner = going(stored(owner, plan(owner, observed(*done), NOW)), HOLD)
    decided = plan(owner, observed(*done), later(60))
    assert decided.actions == ()
    assert decided.status.phase == "Succeeded"
    assert HOLD in decided.status.message


def test_deadlines_do_not_apply_to_a_held_job() -> None:
    owner = going(running(activeDeadlineSeconds=10, startupDeadlineSeconds=10), HOLD)
    assert plan(owner, observed(), later(600)).status.phase == "Terminating"


@virtual
@pytest.mark.parametrize("body", [job_body(), tasks_body(1, 1, 2)], ids=["ranks", "tasks"])
async def test_the_status_of_a_held_job_stays_accurate(body: Any) -> None:
    """C18: with the complete operator. No pod is re-created."""
    async with simulated(body) as world:
        await world.running()
        hold(world)
        await world.runs(5)
        assert world.phase == "Terminating"
        ranks = world.cluster.names_of("pods")
        for name in ranks:
            world.cluster.remove("pods", name)
        await world.runs(60)
        status = world.cluster.job().status
        assert (status.replicas, status.ready_replicas, status.phase) == (0, 0, "Terminating")
        assert HOLD in status.message
        created = len(world.writes("POST", "pods"))
        assert created == len(ranks)


def hold(world: World) -> None:
    """Delete the job, which a finalizer keeps."""
    world.cluster.patch(names.PLURAL, "job", {"metadata": {"finalizers": [HOLD]}})
    world.cluster.remove(names.PLURAL, "job")
