"""Pods that stay Terminating: they are force-deleted only if the cluster has given up their node
and their grace period is over.
"""

from typing import Any

import pytest
from dijob.api.status import format_time
from dijob.core.actions import ForceDeletePod
from dijob.core.decide.deletion import force_delete_lost_pods
from dijob.core.observed.termination import Termination
from dijob.core.observed.views import Pod
from samples.builders import NOW, job, later, listed, observed, plan, pod_body, read, stored

GONE_BY = format_time(later(30))
HANGS: dict[str, Any] = {"deleting": True, "node_lost": True, "termination": Termination(GONE_BY)}

PODS: dict[str, tuple[Pod, float, bool]] = {
    "its node is lost and its grace is over": (listed(1, **HANGS), 35, True),
    "its grace is not over": (listed(1, **HANGS), 34, False),
    "somebody deleted it, and it is slow": (
        listed(1, deleting=True, termination=Termination(GONE_BY)),
        999,
        False,
    ),
    "its node is lost and it is not deleted": (listed(1, node_lost=True), 999, False),
    "it had ended before": (listed(1, **HANGS, phase="Failed"), 35, True),
    "the time is unknown": (listed(1, deleting=True, node_lost=True), 999, False),
}


@pytest.mark.parametrize(("pod", "seconds", "force"), PODS.values(), ids=PODS)
def test_which_pods_are_force_deleted(pod: Pod, seconds: float, force: bool) -> None:
    forced = (ForceDeletePod(pod.name, pod.uid),) if force else ()
    assert force_delete_lost_pods([pod], later(seconds)) == forced


def test_the_job_is_reconciled_when_the_grace_period_is_over() -> None:
    owner, seen = job(), observed(listed(0), listed(1, **HANGS), listed(2))
    # This stores that rank 1 is lost.
    owner = stored(owner, plan(owner, seen, NOW))
    waits = plan(owner, seen, later(20))
    assert not any(isinstance(action, ForceDeletePod) for action in waits.actions)
    assert waits.requeue_after <= 15.5
    assert ForceDeletePod("job-1", "uid-1") in plan(owner, seen, later(36)).actions


def test_only_a_deletion_by_the_taint_manager_counts() -> None:
    for reason, lost in (("DeletionByTaintManager", True), ("EvictionByEvictionAPI", False)):
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
        assert read(pod_body(conditions=[condition])).placement.node_lost is lost
