"""Pods that wait for capacity or for an object, with the real scheduler and controllers."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver.plane import Body, Plane, changed, job
from cluster.kwok_nodes import nodes

pytestmark = pytest.mark.apiserver

POD = "spec.template.spec"


@pytest.fixture
def removed(plane: Plane) -> Iterator[list[str]]:
    """Yield a list of objects (`kind/name`) that are deleted after the test."""
    things: list[str] = []
    yield things
    plane.remove(*things)


def spread(name: str, **spec: Any) -> Body:
    """Return a job of four ranks that must run on different nodes; there are three."""
    alone = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"diengine.opendilab.org/job": name}},
            }
        ]
    }
    made = job(name, minReplicas=4, maxReplicas=4, scheduleTimeoutSeconds=5, **spec)
    return changed(made, f"{POD}.affinity", {"podAntiAffinity": alone})


def waiting(plane: Plane, name: str) -> str:
    """Return the uid of the unscheduled pod."""
    plane.until_condition(name, "AddressesReady", "False", "Unschedulable")
    unbound: list[str] = []

    def one() -> bool:
        pods = by_uid(plane, name).items()
        unbound[:] = [uid for uid, pod in pods if "nodeName" not in pod["spec"]]
        return len(unbound) == 1

    plane.until("three of its pods have nodes", one, lambda: unbound)
    return unbound[0]


STRANGER: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "stranger"},
    "spec": {"nodeSelector": {"no": "such"}, "containers": [{"name": "c", "image": "example/x"}]},
}


def test_a_job_that_waits_alone_keeps_its_pods(plane: Plane, removed: list[str]) -> None:
    """C19: no other pod needs the capacity, and the unscheduled pod triggers an autoscaler."""
    name = "lonely"
    removed += [f"dijob/{name}", "node/fourth"]
    plane.apply(spread(name))
    pod = waiting(plane, name)
    before = plane.uids(name)
    begun = time.monotonic()
    plane.until(
        "three times its scheduleTimeoutSeconds have passed",
        lambda: time.monotonic() - begun > 15,
        lambda: plane.uids(name),
    )
    assert plane.uids(name) == before
    plane.kubectl("apply", "-f", "-", stdin=nodes(("fourth",)))
    plane.until_condition(name, "Running", "True", "all 4 ranks are running", seconds=90)
    assert pod in before.values()
    assert plane.uids(name) == before


def test_an_unscheduled_pod_stays_when_the_others_release_their_nodes(
    plane: Plane, removed: list[str]
) -> None:
    """C19: another pod is unscheduled too; then a fourth node is added."""
    name = "room"
    removed += [f"dijob/{name}", "node/fourth", "pod/stranger"]
    plane.apply(spread(name))
    kept, before = waiting(plane, name), plane.uids(name)
    # Only now, because the job releases its nodes as soon as another pod needs them.
    plane.apply(STRANGER)
    given: list[Body] = []

    def released() -> bool:
        found = ((plane.get("dijob", name) or {}).get("status") or {}).get("givenBack")
        given[:] = [found] if found else []
        return bool(found)

    # The condition NoRoom lasts until the kept pod is scheduled to a released node.
    plane.until("it released the nodes", released, lambda: plane.get("dijob", name))
    assert "released the nodes" in given[0]["message"]
    assert before[f"{name}-{given[0]['keptRanks']}"] == kept
    others = set(before.values()) - {kept}
    plane.until(
        "the others are gone",
        lambda: not others & set(by_uid(plane, name)),
        lambda: plane.uids(name),
    )
    assert kept in by_uid(plane, name)
    plane.kubectl("apply", "-f", "-", stdin=nodes(("fourth",)))
    plane.until_condition(name, "Running", "True", "all 4 ranks are running", seconds=90)


def by_uid(plane: Plane, name: str) -> dict[str, Body]:
    return {pod["metadata"]["uid"]: pod for pod in plane.pods(name).values()}


CLAIM = {"name": "gpu", "resourceClaimTemplateName": "absent"}
TEMPLATE: Body = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "absent"},
    "spec": {
        "spec": {"devices": {"requests": [{"name": "x", "exactly": {"deviceClassName": "gpus"}}]}}
    },
}


def test_a_resource_claim_that_is_not_made_is_named(plane: Plane, removed: list[str]) -> None:
    """C34: such a pod never enters the scheduler's queue, so the scheduler reports nothing."""
    removed += ["dijob/claims", "resourceclaimtemplate/absent"]
    plane.apply(changed(job("claims"), f"{POD}.resourceClaims", [CLAIM]))
    plane.until_condition("claims", "AddressesReady", "False", "AddressMissing", '"absent"')
    assert "not installed" not in plane.condition("claims", "AddressesReady")["message"]
    plane.apply(TEMPLATE)
    plane.until_condition("claims", "AddressesReady", "False", "Unschedulable", seconds=60)


def test_a_resource_claim_that_is_missing_is_named(plane: Plane, removed: list[str]) -> None:
    """C34: no controller reports it either."""
    removed.append("dijob/claim")
    one = {"name": "gpu", "resourceClaimName": "not-there"}
    plane.apply(changed(job("claim"), f"{POD}.resourceClaims", [one]))
    plane.until_condition("claim", "AddressesReady", "False", "AddressMissing", "not-there")
    assert "not installed" not in plane.condition("claim", "AddressesReady")["message"]


MISSING: dict[str, tuple[str, Body]] = {
    "serviceAccountName": ("serviceaccount", {"apiVersion": "v1", "kind": "ServiceAccount"}),
    "runtimeClassName": (
        "runtimeclass",
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "x"},
    ),
    "priorityClassName": (
        "priorityclass",
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1},
    ),
}


@pytest.mark.parametrize("field", MISSING)
def test_a_rejected_job_starts_when_the_missing_object_exists(
    plane: Plane, removed: list[str], field: str
) -> None:
    """C45: within 30 s; the rest of the time is for a busy machine."""
    name = f"late-{field.removesuffix('Name').lower()}"
    kind, body = MISSING[field]
    removed += [f"dijob/{name}", f"{kind}/{name}"]
    plane.apply(changed(job(name), f"{POD}.{field}", name))
    plane.until_condition(name, "PodsCreated", "False", "PodForbidden", name)
    plane.apply({**body, "metadata": {"name": name}})
    plane.until_condition(name, "PodsCreated", "True", seconds=40)
    plane.until_condition(name, "Running", "True")
