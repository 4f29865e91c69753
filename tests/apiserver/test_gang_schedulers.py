"""The PodGroups of the engines Volcano and Coscheduling on a real API server. Minimal CRDs of our
own stand in for those of the schedulers, and Kubernetes' scheduler places the pods one by one.
`make schedulers` runs the real schedulers (docs/queues.md).
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver.plane import Body, Plane, changed, job
from apiserver.pool import lose, succeed, suspend
from cluster.shell import until_established

pytestmark = pytest.mark.apiserver

VOLCANO = "podgroups.scheduling.volcano.sh"
COSCHEDULING = "podgroups.scheduling.x-k8s.io"
VERSIONS = {VOLCANO: "v1beta1", COSCHEDULING: "v1alpha1"}


def crd(name: str) -> Body:
    plural, _, group = name.partition(".")
    count = {"type": "integer", "minimum": 0}
    spec = {"type": "object", "properties": {"minMember": count, "queue": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {
        "name": VERSIONS[name],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # The API server requires a reason for a CRD in a group of Kubernetes.
        "metadata": {
            "name": name,
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "names": {"plural": plural, "singular": "podgroup", "kind": "PodGroup"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


@pytest.fixture(scope="module")
def served(plane: Plane) -> Iterator[Plane]:
    """Yield the control plane, which serves the PodGroups of both schedulers."""
    plane.apply(*map(crd, VERSIONS))
    for name in VERSIONS:
        until_established(plane.kubectl, name)
    yield plane
    # In other tests, `kubectl get podgroups` means those of Kubernetes.
    plane.kubectl("delete", "crd", *VERSIONS)


def gang(name: str, engine: str, **scheduling: Any) -> Body:
    spec = {"scheduling": {"engine": engine, **scheduling}, "service": "Auto"}
    body = job(name, replicas=3, **spec)
    return changed(body, "spec.template.spec.schedulerName", "default-scheduler")


def groups(plane: Plane, kind: str, name: str) -> dict[str, Body]:
    """Return the specs of a job's PodGroups by name."""
    selector = f"diengine.opendilab.org/job={name}"
    listed = json.loads(plane.kubectl("get", kind, "-l", selector, "-o", "json"))["items"]
    return {one["metadata"]["name"]: one["spec"] for one in listed}


def metadata(plane: Plane, name: str) -> list[Body]:
    """Return the metadata of a job's pods."""
    return [body["metadata"] for body in plane.pods(name).values()]


@pytest.mark.parametrize(
    ("engine", "kind", "spec", "after"),
    [
        # Volcano also counts the pod that has succeeded.
        ("Volcano", VOLCANO, {"minMember": 3, "queue": "team-a"}, 3),
        ("Coscheduling", COSCHEDULING, {"minMember": 3}, 2),
    ],
    ids=["Volcano", "Coscheduling"],
)
def test_the_life_of_a_pod_group(
    served: Plane, engine: str, kind: str, spec: Body, after: int
) -> None:
    name = engine.lower()
    queue = {"queue": spec["queue"]} if "queue" in spec else {}
    try:
        served.apply(gang(name, engine, **queue))
        served.until_condition(name, "Running", "True", "all 3 ranks")
        served.until_condition(name, "GangScheduled", "True", "Placed")
        assert groups(served, kind, name) == {name: spec}
        in_group(served, engine, name, name)
        succeed(served, f"{name}-2")
        served.until_condition(name, "Running", "True", "rank 2 has finished")
        lose(served, f"{name}-1")
        served.until_condition(name, "PeersReady", "True")
        assert groups(served, kind, name)[name]["minMember"] == after
        suspend(served, name, "true")
        served.until_condition(name, "GangScheduled", "False", "Suspended")
        served.until("no PodGroup", lambda: not groups(served, kind, name), lambda: ())
        suspend(served, name, "false")
        served.until_condition(name, "GangScheduled", "True", "Placed")
        ((new, resumed),) = groups(served, kind, name).items()
        assert new.startswith(f"{name}-")
        assert resumed["minMember"] == 2  # rank 2 has succeeded, and its pod is gone
    finally:
        served.remove(f"dijob/{name}")


def in_group(plane: Plane, engine: str, name: str, group: str) -> None:
    """Check that all pods of a job name this group in the way that the scheduler reads."""
    for meta in metadata(plane, name):
        assert meta["annotations"]["diengine.opendilab.org/scheduling-engine"] == engine
        if engine == "Volcano":
            assert meta["annotations"]["scheduling.k8s.io/group-name"] == group
        else:
            assert meta["labels"]["scheduling.x-k8s.io/pod-group"] == group


def test_a_group_with_the_name_of_another_owner_is_not_touched(served: Plane) -> None:
    taken = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "taken"},
        "spec": {"minMember": 7},
    }
    try:
        served.apply(taken, gang("taken", "Volcano"))
        words = ("GroupNameTaken", "podgroup")
        served.until_condition("taken", "GangScheduled", "False", *words)
        assert served.pods("taken") == {}
        assert (served.get(VOLCANO, "taken") or {})["spec"] == {"minMember": 7}
    finally:
        served.remove("dijob/taken", f"{VOLCANO}/taken")


def test_an_engine_that_the_cluster_does_not_serve(plane: Plane) -> None:
    name = "not-served"
    try:
        plane.apply(gang(name, "KAI"))
        words = ("NotServed", "kubectl api-resources --api-group=scheduling.run.ai")
        plane.until_condition(name, "GangScheduled", "False", *words)
        assert plane.pods(name) == {}
    finally:
        plane.remove(f"dijob/{name}")
