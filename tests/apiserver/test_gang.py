"""Gang scheduling with the real scheduler: PodGroups of jobs on simulated nodes, and a cluster that
does not serve PodGroups (docs/queues.md).
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apiserver import pool as pools
from apiserver.plane import Body, Plane, changed, operator
from apiserver.pool import clear, lose, placed, room_for_four, succeed, suspend
from cluster.build import chosen
from dijob.controller.observe.engine_reader import UNSERVED_SECONDS
from planes import control_plane
from workers import own

pytestmark = [
    pytest.mark.apiserver,
    pytest.mark.skipif(not chosen().gates, reason="this Kubernetes has no PodGroups"),
]

NATIVE: Body = {"engine": "Native"}


@pytest.fixture(scope="module")
def pool(plane: Plane) -> Iterator[Plane]:
    """Yield the control plane with nodes for four ranks."""
    with room_for_four(plane):
        yield plane


def gang(name: str, replicas: int = 3, **spec: Any) -> Body:
    return pools.gang(name, "Native", replicas, **spec)


def groups(plane: Plane, name: str) -> dict[str, int]:
    """Return the names of a job's PodGroups, with their minCount."""
    selector = f"diengine.opendilab.org/job={name}"
    listed = json.loads(plane.kubectl("get", "podgroups", "-l", selector, "-o", "json"))
    return {
        one["metadata"]["name"]: one["spec"]["schedulingPolicy"]["gang"]["minCount"]
        for one in listed["items"]
        if not one["metadata"].get("deletionTimestamp")
    }


def test_of_two_jobs_of_three_with_room_for_four_one_runs(pool: Plane) -> None:
    try:
        pool.apply(gang("first"))
        pool.until_condition("first", "GangScheduled", "True", "Placed")
        pool.apply(gang("second"))
        pool.until_condition("second", "GangScheduled", "False", "NoRoom", "Insufficient cpu")
        pool.until_condition("first", "Running", "True")
        assert placed(pool, "second") == set()
        assert len(placed(pool, "first")) == 3
        succeed(pool, *sorted(placed(pool, "first")))
        pool.until_condition("second", "Running", "True")
        assert len(placed(pool, "second")) == 3
    finally:
        clear(pool, "first", "second")


def test_a_rank_is_lost_after_another_has_succeeded(pool: Plane) -> None:
    """The scheduler counts only pods that have not ended."""
    try:
        pool.apply(gang("halfway"))
        pool.until_condition("halfway", "Running", "True", "all 3 ranks")
        succeed(pool, "halfway-2")
        pool.until_condition("halfway", "Running", "True", "rank 2 has finished")
        assert groups(pool, "halfway") == {"halfway": 3}
        lose(pool, "halfway-1")
        assert groups(pool, "halfway") == {"halfway": 2}
        pool.until_condition("halfway", "PeersReady", "True")
    finally:
        clear(pool, "halfway")


def test_a_gang_shrinks_grows_is_suspended_and_resumed(pool: Plane) -> None:
    name = "resized"
    try:
        pool.apply(gang(name, 4))
        pool.until_condition(name, "Running", "True", "all 4 ranks")
        pool.kubectl("scale", "dijob", name, "--replicas=2")
        pool.until_condition(name, "PeersReady", "True", "revision 2")
        lose(pool, f"{name}-1")
        assert groups(pool, name) == {name: 2}
        # Otherwise the list after the loss could already contain the new ranks.
        pool.until_condition(name, "PeersReady", "True", "revision 3")
        pool.kubectl("scale", "dijob", name, "--replicas=4")
        pool.until("all run", lambda: len(placed(pool, name)) == 4, lambda: pool.pods(name))
        pool.until_condition(name, "PeersReady", "True", "revision 4", seconds=60)
        assert groups(pool, name) == {name: 2}
        suspend(pool, name, "true")
        pool.until_condition(name, "GangScheduled", "False", "Suspended")
        pool.until("the PodGroup is gone", lambda: not groups(pool, name), lambda: ())
        suspend(pool, name, "false")
        pool.until_condition(name, "PeersReady", "True", "revision 5")
        ((new, count),) = groups(pool, name).items()
        assert new.startswith(f"{name}-")
        assert count == 4
    finally:
        clear(pool, name)


def test_a_gang_with_tasks_is_placed_as_a_whole(pool: Plane) -> None:
    name = "tasks"
    body = gang(name)
    template = body["spec"].pop("template")
    body["spec"].pop("replicas")
    body["spec"]["tasks"] = [
        {"type": "learner", "template": template},
        {"type": "collector", "replicas": 4, "template": template},
    ]
    try:
        pool.apply(body)
        pool.until_condition(name, "GangScheduled", "False", "NoRoom", "5 ranks")
        assert placed(pool, name) == set()
        body["spec"]["tasks"][1]["replicas"] = 3
        pool.apply(body)
        pool.until_condition(name, "Running", "True", "all 4 ranks")
        assert groups(pool, name) == {name: 4}
    finally:
        clear(pool, name)


def test_a_field_that_the_cluster_ignores_is_named(pool: Plane) -> None:
    """Without its feature gate, the API server removes the constraint from the PodGroup."""
    name, topology = "one-rack", {"topology": {"key": "rack"}}
    try:
        pool.apply(gang(name, scheduling={**NATIVE, **topology}))
        words = ("NotSupported", "TopologyAwareWorkloadScheduling")
        pool.until_condition(name, "GangScheduled", "False", *words)
        assert pool.pods(name) == {}
    finally:
        clear(pool, name)


def test_a_group_of_the_users_own_is_named_if_a_rank_waits_for_it(pool: Plane) -> None:
    name = "own-group"
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "mine"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    made = gang(name, scheduling={})
    made = changed(made, "spec.template.spec.schedulingGroup", {"podGroupName": "mine"})
    try:
        pool.apply(group, made)
        pool.until_condition(name, "Running", "True", "all 3 ranks")
        succeed(pool, f"{name}-2")
        pool.until_condition(name, "Running", "True", "rank 2 has finished")
        pool.kubectl("delete", "pod", f"{name}-1", "--wait=false", "--grace-period=0")
        words = ("PodGroup mine", "kubectl get podgroup mine", "lower minCount")
        pool.until_condition(name, "AddressesReady", "False", *words, seconds=40)
        patch = '{"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}'
        pool.kubectl("patch", "podgroup", "mine", "--type=merge", "-p", patch)
        pool.until_condition(name, "PeersReady", "True")
    finally:
        clear(pool, name)
        pool.kubectl("delete", "podgroup", "mine", "--ignore-not-found")


def test_a_cluster_without_pod_groups_gets_one_request(tmp_path: Path) -> None:
    with control_plane(own("gang-off"), nodes=0, features=False) as cluster:
        log, begin = tmp_path / "log", time.monotonic()
        with operator(cluster.kubeconfig, log):
            plane, jobs = Plane(cluster, log), [gang(f"alone-{number}") for number in range(4)]
            words = ("NotServed", "kubectl api-resources --api-group=scheduling.k8s.io")
            plane.apply(jobs[0])
            plane.until_condition("alone-0", "GangScheduled", "False", *words)
            plane.apply(*jobs[1:])
            for body in jobs:
                plane.until_condition(body["metadata"]["name"], "GangScheduled", "False", *words)
            assert plane.api.pods("default", "app.kubernetes.io/managed-by") == []
            shown = plane.ask("api-resources", "--api-group=scheduling.k8s.io")
            assert "podgroups" not in shown.text
            lines = cluster.audit_log.read_text().splitlines()
            asked = len([line for line in lines if "/podgroups" in line])
            # The operator asks again after UNSERVED_SECONDS, once for all jobs.
            assert 1 <= asked <= 1 + (time.monotonic() - begin) // UNSERVED_SECONDS
