"""Forged annotations, and pods that claim to be ranks, do not affect running ranks."""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from cluster.errors import ClusterError
from identity import identities, running
from manifests import GROUP
from sockets import mesh, until_edges
from space import Space

pytestmark = pytest.mark.e2e

PORTS = (50515,)
LURE = {f"{GROUP}/node-ips": "10.6.6.6,10.6.6.6,10.6.6.6", f"{GROUP}/list-number": "777"}
# The operator writes this annotation together with the list.
SHAPE = f"{GROUP}/container-shape"
FORGED = {
    "a list with the highest number": LURE,
    "a number that has no next one": {f"{GROUP}/list-number": "999999999999999"},
}


def told(space: Space) -> dict[str, dict[str, str]]:
    """Return the annotations of the ranks by pod, except the shape of the containers."""
    found = {pod["metadata"]["name"]: pod["metadata"]["annotations"] for pod in space.pods("world")}
    return {
        pod: {key: text for key, text in annotations.items() if key != SHAPE}
        for pod, annotations in found.items()
    }


def until_told(space: Space, before: dict[str, dict[str, str]]) -> None:
    def problem() -> str:
        now = told(space)
        return "" if now == before else f"{now} instead of {before}"

    space.until("the annotations of all pods are as before", problem, 120)


def repaired(space: Space, before: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    """Return the annotations after the repair. They contain the list, which the pod's launcher had
    received through the channel.
    """
    genuine = {f"{GROUP}/node-ips": ",".join(space.ips("world")), f"{GROUP}/list-number": "1"}
    return {**before, "world-1": {**before["world-1"], **genuine}}


def nothing_has_happened(space: Space) -> None:
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    status = space.status("world")
    assert (status["listNumber"], status.get("renewals", 0), status.get("restarts", 0)) == (1, 0, 0)


def test_forged_annotations_are_repaired_without_a_restart(space: Space) -> None:
    ranks = running(space, replicas=3)
    before = told(space)
    for forged in FORGED.values():
        space.kubectl(
            "annotate",
            "pod",
            "world-1",
            "--overwrite",
            *(f"{key}={value}" for key, value in forged.items()),
        )
        until_told(space, repaired(space, before))
    assert identities(space, "world") == ranks
    nothing_has_happened(space)


@pytest.fixture
def elsewhere(space: Space) -> Iterator[str]:
    """Yield another namespace, and delete it with its pod, which has a finalizer."""
    name = f"{space.name}-else"
    space.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        with suppress(ClusterError):  # the pod does not exist
            space.kubectl(
                "-n",
                name,
                "patch",
                "pod",
                "world-1",
                "--type=merge",
                '-p={"metadata":{"finalizers":null}}',
            )
        space.kubectl("delete", "namespace", name, "--wait=false")


def test_a_pod_of_another_namespace_is_never_a_peer(space: Space, elsewhere: str) -> None:
    """The pod has a rank's labels, a peer list, and an owner reference with the job's uid and an
    unknown kind.
    """
    ranks = running(space, replicas=3)
    before, uid = told(space), space.job("world")["metadata"]["uid"]
    owner = {"apiVersion": "v9", "kind": "Nothing", "name": "world", "uid": uid, "controller": True}
    meta = {
        "name": "world-1",
        "namespace": elsewhere,
        "labels": {
            "app.kubernetes.io/managed-by": "dijob-operator",
            f"{GROUP}/job": "world",
            f"{GROUP}/rank": "1",
        },
        "annotations": LURE,
        "ownerReferences": [owner],
        "finalizers": ["example.org/stays"],
    }
    template = space.pods("world")[1]["spec"]["containers"][0]
    spec = {"containers": [{"name": "x", "image": template["image"], "command": ["sleep", "600"]}]}
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    space.kubectl("-n", elsewhere, "create", "-f", "-", stdin=json.dumps(other))

    def no_address() -> str:
        ip = space.kubectl("-n", elsewhere, "get", "pod", "world-1", "-o=jsonpath={.status.podIP}")
        return "" if ip else "it has none"

    space.until("the other pod has an address", no_address, 180)
    # An edit of the job causes a reconciliation with everything that is known by now.
    generation = space.status("world")["observedGeneration"]
    space.kubectl("patch", "dijob", "world", "--type=merge", '-p={"spec":{"backoffLimit":1}}')

    def not_seen() -> str:
        return (
            ""
            if space.status("world")["observedGeneration"] > generation
            else "the edit is not seen"
        )

    space.until("the job is looked at", not_seen, 120)
    assert told(space) == before
    assert identities(space, "world") == ranks
    nothing_has_happened(space)
