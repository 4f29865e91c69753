"""Objects that another client edits or creates in the place of the operator's, on a real apiserver:
its defaults and its managedFields are not simulated.
"""

import json
from collections.abc import Iterator

import pytest
from apiserver.plane import NAMESPACE, Body, Plane, changed, job
from click.testing import CliRunner
from dijob import names
from dijob.cli.main import group

pytestmark = pytest.mark.apiserver

LEASE: Body = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": names.CLAIM, "namespace": NAMESPACE},
    "spec": {"holderIdentity": "absent"},
}


@pytest.fixture
def named(plane: Plane) -> Iterator[str]:
    plane.apply(job("named", addressing="Hostname"))
    plane.until_condition("named", "Running", "True", seconds=60)
    yield "named"
    plane.remove("dijob/named")


def test_an_edited_service_is_reported_until_it_is_deleted(plane: Plane, named: str) -> None:
    """P16."""
    plane.until("the Service is there", lambda: plane.get("service", named), lambda: None)
    assert not plane.condition(named, "ServiceReady")
    edit: Body = {"spec": {"selector": {"app": "evil"}}}
    plane.kubectl("patch", "service", named, "-p", json.dumps(edit))
    words = ("ServiceChanged", "selector", f"kubectl delete service {named}")
    plane.until_condition(named, "ServiceReady", "False", *words)
    plane.kubectl("delete", "service", named)
    plane.until_condition(named, "ServiceReady", "True", "Created")


def test_a_pod_of_another_client_is_replaced(plane: Plane) -> None:
    """P10."""
    plane.apply(changed(job("guest"), "metadata.annotations", {names.ANNOTATION_PAUSED: "true"}))
    plane.until_condition("guest", "Paused", "True")
    meta = (plane.get("dijob", "guest") or {})["metadata"]
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "guest"}
    foreign: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "guest-1",
            "labels": {names.MANAGED_BY: names.MANAGER, names.LABEL_JOB: "guest"},
            "ownerReferences": [{**owner, "uid": meta["uid"], "controller": True}],
        },
        "spec": {"containers": [{"name": "c", "image": "x", "command": ["sleep", "9999"]}]},
    }
    plane.apply(foreign)
    plane.kubectl("annotate", "dijob", "guest", f"{names.ANNOTATION_PAUSED}-")

    def gated() -> bool:
        pods = plane.pods("guest").values()
        return len(pods) == 2 and all(pod["spec"].get("initContainers") for pod in pods)

    plane.until("the operator's pods", gated, lambda: list(plane.pods("guest")), 60)
    plane.until_condition("guest", "Running", "True", seconds=60)
    plane.remove("dijob/guest")


def test_doctor_names_a_claim_that_is_newer_than_a_problem(plane: Plane) -> None:
    """P5: the status is that of a job whose operator waits for a node."""
    plane.apply(changed(job("stuck"), "spec.template.spec.nodeSelector", {"no": "such-node"}))
    plane.until_condition("stuck", "AddressesReady", "False", "AddressMissing", seconds=60)
    assert "Lease" not in doctor(plane)
    plane.apply(LEASE)
    try:
        said = doctor(plane)
    finally:
        plane.remove(f"lease/{names.CLAIM}", "dijob/stuck")
    first = said.splitlines()[0]
    assert "no operator is updating the status" in first, said
    claimed = f"the Lease {names.CLAIM} has assigned namespace {NAMESPACE} to the release absent"
    assert claimed in first


def doctor(plane: Plane) -> str:
    words = ["doctor", "stuck", "-n", NAMESPACE, "--kubeconfig", str(plane.cluster.kubeconfig)]
    return CliRunner().invoke(group, words).output
