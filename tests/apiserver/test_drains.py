"""Budgets and drains, with the real disruption controller and eviction API: budgets of users, which
read the job's scale, and those of the operator (docs/tasks.md).
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from apiserver.plane import NAMESPACE, Body, Plane, changed, job
from apiserver.pool import clear
from apiserver.rows_tasks import tasks_job
from chart.lab import Said
from space import JOB_LABEL

pytestmark = pytest.mark.apiserver

EXIT = "test.dijob/exit"
# The disruption controller needs a moment, and the job restarts a rank in its pod.
SECONDS = 100
TASK_LABEL = "diengine/task-name"


@pytest.fixture
def name(plane: Plane, request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the name of a job, and delete it with its pods and budgets."""
    name = "drained"
    yield name
    clear(plane, name)
    plane.kubectl("delete", "pdb", "-l", f"{JOB_LABEL}={name}")
    plane.kubectl("delete", "pdb", "users", "number", "--ignore-not-found")


def with_budgets(name: str, learner: int | None, collector: int | None) -> Body:
    """Return a job of one learner and three collectors that do not connect to each other."""
    tasks: list[Body] = [{"type": "learner"}, {"type": "collector", "replicas": 3}]
    for task, most in zip(tasks, (learner, collector), strict=True):
        if most is not None:
            task["disruptionBudget"] = {"maxUnavailable": most}
    return tasks_job(name, *tasks, topology="alone")


def budget(name: str, selector: Body, **spec: Any) -> Body:
    """Return a budget of a user."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": selector}, **spec},
    }


def allowed(plane: Plane, name: str) -> int:
    """Return how many evictions a budget allows now; -1 if that has not been computed."""
    body = plane.get("pdb", name) or {}
    status = body.get("status") or {}
    if status.get("observedGeneration") != body.get("metadata", {}).get("generation"):
        return -1
    return int(status.get("disruptionsAllowed", -1))


def until_allowed(plane: Plane, name: str, count: int) -> None:
    plane.until(
        f"budget {name} allows {count}",
        lambda: allowed(plane, name) == count,
        lambda: (plane.get("pdb", name), plane.kubectl("get", "pods", "-o", "wide")),
        SECONDS,
    )


def until_computed(plane: Plane, name: str, count: int) -> None:
    """Wait until a budget that needs the scale allows this many evictions. The controller learns
    the kinds of new CRDs only every 30 s, and then waits for a change of the budget or of a pod.
    """

    def computed() -> bool:
        plane.kubectl("annotate", "pdb", name, f"now={time.monotonic()}", "--overwrite")
        return allowed(plane, name) == count

    plane.until(f"budget {name} allows {count}", computed, lambda: plane.get("pdb", name), SECONDS)


def evict(plane: Plane, pod: str) -> Said:
    """Evict a pod as `kubectl drain` does."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    }
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction"
    return plane.ask("create", "--raw", path, "-f", "-", stdin=json.dumps(body))


def succeed(plane: Plane, name: str, *pods: str) -> None:
    plane.kubectl("annotate", "pod", *pods, f"{EXIT}=0")
    done = f"{len(pods)} of the ranks have succeeded"
    plane.until(
        done,
        lambda: (plane.get("dijob", name) or {})["status"].get("succeededRanks"),
        lambda: plane.get("dijob", name),
    )


@pytest.mark.parametrize(
    ("selected", "spec", "count"),
    [
        ("collector", {"maxUnavailable": 1}, 1),
        ("collector", {"minAvailable": "50%"}, 1),
        # One too many: Kubernetes expects 3 pods, but the budget selects 4 (docs/tasks.md).
        ("", {"maxUnavailable": 1}, 2),
    ],
    ids=["maxUnavailable", "percentage", "the whole job"],
)
def test_a_users_budget_of_a_job_with_tasks_is_computed_from_the_last_task(
    plane: Plane, name: str, selected: str, spec: Body, count: int
) -> None:
    selector = {JOB_LABEL: name} | ({TASK_LABEL: selected} if selected else {})
    plane.apply(with_budgets(name, None, None), budget("users", selector, **spec))
    plane.until_condition(name, "Running", "True")
    until_computed(plane, "users", count)
    assert evict(plane, f"{name}-collector-0").ok


def test_a_users_budget_that_needs_the_scale_counts_succeeded_ranks_as_unavailable(
    plane: Plane, name: str
) -> None:
    """docs/tasks.md says so, and which budgets do not."""
    right = budget("number", {JOB_LABEL: name}, minAvailable=2)
    plane.apply(job(name, replicas=4, topology="alone"))
    plane.until_condition(name, "Running", "True")
    plane.apply(budget("users", {JOB_LABEL: name}, maxUnavailable=1))
    until_computed(plane, "users", 1)
    succeed(plane, name, f"{name}-3")
    until_allowed(plane, "users", 0)
    plane.kubectl("delete", "pdb", "users")
    plane.apply(right)
    until_allowed(plane, "number", 1)


def hold(plane: Plane, pod: str, *finalizers: str) -> None:
    """Set the finalizers of a pod."""
    patch = json.dumps({"metadata": {"finalizers": list(finalizers)}})
    plane.kubectl("patch", "pod", pod, "--type=merge", "-p", patch)


def test_a_drain_stops_collectors_one_by_one_and_no_learner(plane: Plane, name: str) -> None:
    plane.apply(with_budgets(name, 0, 1))
    plane.until_condition(name, "Running", "True")
    until_allowed(plane, f"{name}-learner", 0)
    until_allowed(plane, f"{name}-collector", 1)
    refused = evict(plane, f"{name}-learner-0")
    assert not refused.ok
    assert "would violate the pod's disruption budget" in refused.text
    before = plane.uids(name)
    # The finalizer keeps the pod until it is removed. Without it, a new pod can be ready at once.
    hold(plane, f"{name}-collector-0", "test.dijob/hold")
    assert evict(plane, f"{name}-collector-0").ok
    assert not evict(plane, f"{name}-collector-1").ok
    assert plane.uids(name) == before
    hold(plane, f"{name}-collector-0")
    plane.until(
        "the second collector can be evicted when the first is back",
        lambda: evict(plane, f"{name}-collector-1").ok,
        lambda: plane.get("pdb", f"{name}-collector"),
        SECONDS,
    )
    now = plane.uids(name)
    assert now[f"{name}-collector-0"] != before[f"{name}-collector-0"]
    assert now[f"{name}-learner-0"] == before[f"{name}-learner-0"]
    assert (plane.get("dijob", name) or {})["status"]["restarts"] == 0


def test_the_operators_budget_counts_no_succeeded_rank(plane: Plane, name: str) -> None:
    plane.apply(job(name, replicas=4, topology="alone", disruptionBudget={"maxUnavailable": 1}))
    plane.until_condition(name, "Running", "True")
    until_allowed(plane, name, 1)
    succeed(plane, name, f"{name}-3")
    until_allowed(plane, name, 1)
    assert (plane.get("pdb", name) or {})["spec"]["minAvailable"] == 2
    assert evict(plane, f"{name}-3").ok
    assert evict(plane, f"{name}-0").ok


def test_a_budget_follows_the_size_of_the_job_and_is_deleted_with_its_field(
    plane: Plane, name: str
) -> None:
    def least() -> int:
        return int((plane.get("pdb", name) or {"spec": {}})["spec"].get("minAvailable", -1))

    plane.apply(job(name, replicas=3, disruptionBudget={"maxUnavailable": 1}, gatherSeconds=0))
    plane.until("it has a budget", lambda: least() == 2, lambda: plane.get("pdb", name))
    plane.kubectl("scale", "dijob", name, "--replicas=5")
    plane.until("it grows", lambda: least() == 4, lambda: plane.get("pdb", name))
    plane.kubectl("scale", "dijob", name, "--replicas=2")
    plane.until("it shrinks", lambda: least() == 1, lambda: plane.get("pdb", name))
    change = json.dumps({"spec": {"disruptionBudget": None}})
    plane.kubectl("patch", "dijob", name, "--type=merge", "-p", change)
    plane.until("it is gone", lambda: not plane.get("pdb", name), lambda: plane.get("pdb", name))


@pytest.mark.parametrize("how", ["suspended", "deleted", "ended"])
def test_a_job_that_stops_has_no_budget(plane: Plane, name: str, how: str) -> None:
    made = job(name, cleanPodPolicy="None", disruptionBudget={"maxUnavailable": 0})
    plane.apply(changed(made, "spec.successPolicy", "Rank0"))
    plane.until_condition(name, "Running", "True")
    until_allowed(plane, name, 0)
    match how:
        case "suspended":
            plane.kubectl("patch", "dijob", name, "--type=merge", "-p", '{"spec":{"suspend":true}}')
        case "deleted":
            plane.kubectl("delete", "dijob", name)
        case _:
            plane.kubectl("annotate", "pod", f"{name}-0", f"{EXIT}=0")
    plane.until(
        "the budget is gone",
        lambda: plane.get("pdb", name) is None,
        lambda: (plane.get("pdb", name), plane.get("dijob", name)),
        # The garbage collector looks for new kinds every 30 s.
        100,
    )


def test_a_rank_that_is_not_ready_does_not_block_a_drain(plane: Plane, name: str) -> None:
    made = job(name, replicas=2, topology="alone", disruptionBudget={"maxUnavailable": 0})
    plane.apply(made)
    plane.until_condition(name, "Running", "True")
    until_allowed(plane, name, 0)
    assert not evict(plane, f"{name}-1").ok
    unready = [{"type": "Ready", "status": "False"}]
    patch = json.dumps({"status": {"conditions": unready}})
    plane.kubectl("patch", "pod", f"{name}-1", "--subresource=status", "-p", patch)
    assert evict(plane, f"{name}-1").ok


def pool_node(name: str) -> Body:
    """Return a node of a pool of its own, so that a drain evicts no other pods."""
    room = {"cpu": "8", "memory": "1Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "drain", "type": "kwok"}},
        "status": {"capacity": room, "allocatable": room},
    }


@pytest.fixture
def node(plane: Plane) -> Iterator[str]:
    """Yield the first node of the pool."""
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pool_node("drain-0")))
    yield "drain-0"
    plane.kubectl("delete", "node", "drain-0", "drain-1", "--ignore-not-found")


def test_kubectl_drain_moves_the_collectors_and_waits_for_the_learner(
    plane: Plane, node: str, name: str
) -> None:
    """(The job is deleted before its node, so `node` comes first.)"""
    made = with_budgets(name, 0, 1)
    for task in made["spec"]["tasks"]:
        task["template"]["spec"]["nodeSelector"] = {"pool": "drain"}
    plane.apply(made)
    plane.until_condition(name, "Running", "True")
    until_allowed(plane, f"{name}-collector", 1)
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump(pool_node("drain-1")))

    def drain(seconds: int, *more: str) -> Said:
        options = ("--ignore-daemonsets", "--delete-emptydir-data", f"--timeout={seconds}s")
        return plane.ask("drain", node, *options, *more)

    said = drain(100, "--pod-selector", f"{JOB_LABEL}={name},{TASK_LABEL}=collector")
    assert said.ok, said.text
    said = drain(10)
    assert not said.ok, said.text
    assert f"{name}-learner-0" in said.text
    places = {pod: body["spec"].get("nodeName") for pod, body in plane.pods(name).items()}
    assert {pod for pod, place in places.items() if place == node} == {f"{name}-learner-0"}
    # The user lets the learner go.
    allow = [{"op": "replace", "path": "/spec/tasks/0/disruptionBudget/maxUnavailable", "value": 1}]
    plane.kubectl("patch", "dijob", name, "--type=json", "-p", json.dumps(allow))
    said = drain(100)
    assert said.ok, said.text
