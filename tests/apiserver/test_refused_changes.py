"""An admission policy that protects pods: its message is in a condition, and after its removal the
job recovers.
"""

from collections.abc import Iterator

import pytest
from apiserver.plane import Body, Plane, job
from space import JOB_LABEL

pytestmark = pytest.mark.apiserver

NAME = "kept"
WORDS = "ask the owner of the cluster first"
SELECTED = {"matchLabels": {JOB_LABEL: NAME}}
# What the policy matches, what it requires, and a request that shows whether it is active.
POLICIES = {
    "UPDATE": (
        "object.metadata.?annotations == oldObject.metadata.?annotations",
        ("annotate", "pod", "probe", "a=b"),
    ),
    "DELETE": ("false", ("delete", "pod", "probe")),
}


def policy(operation: str) -> tuple[Body, Body]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["pods"],
        "operations": [operation],
    }
    group = "admissionregistration.k8s.io/v1"
    return (
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": NAME},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "objectSelector": SELECTED},
                "validations": [{"expression": POLICIES[operation][0], "message": WORDS}],
            },
        },
        {
            "apiVersion": group,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": NAME},
            "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        },
    )


PROBE: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "labels": {JOB_LABEL: NAME}},
    "spec": {
        "containers": [{"name": "a", "image": "example/y"}],
        "nodeSelector": {"no": "such-node"},
    },
}
THINGS = (f"validatingadmissionpolicybinding/{NAME}", f"validatingadmissionpolicy/{NAME}")


@pytest.fixture
def probe(plane: Plane) -> Iterator[None]:
    plane.apply(PROBE)
    try:
        yield
    finally:
        plane.kubectl("delete", *THINGS, "--ignore-not-found")
        plane.until(
            "nothing is protected", lambda: _allowed(plane, "DELETE"), lambda: _ask(plane, "DELETE")
        )
        plane.remove("pod/probe", f"dijob/{NAME}")


def _ask(plane: Plane, operation: str) -> str:
    return plane.ask(*POLICIES[operation][1], "--dry-run=server").text


def _allowed(plane: Plane, operation: str) -> bool:
    return WORDS not in _ask(plane, operation)


def protect(plane: Plane, operation: str) -> None:
    plane.apply(*policy(operation))
    plane.until(
        "the policy is in force",
        lambda: not _allowed(plane, operation),
        lambda: _ask(plane, operation),
    )


def test_rejected_changes_are_reported_with_the_policys_message(
    plane: Plane, untouched: str, probe: None
) -> None:
    protect(plane, "UPDATE")
    plane.apply(job(NAME, minReplicas=1, maxReplicas=2, replicas=2))
    plane.until_condition(
        NAME, "ChangesRefused", "True", "PodUpdateRefused", f"pod {NAME}-0", WORDS
    )
    assert WORDS in plane.kubectl("get", "dijob", NAME, "-o", "jsonpath={.status.message}")
    plane.kubectl("delete", *THINGS)
    plane.until_condition(NAME, "Running", "True", seconds=90)
    plane.until_condition(NAME, "ChangesRefused", "False", "Accepted")

    protect(plane, "DELETE")
    plane.kubectl("scale", "dijob", NAME, "--replicas=1")
    plane.until_condition(
        NAME, "ChangesRefused", "True", "PodDeletionRefused", f"pod {NAME}-1", WORDS
    )
    assert plane.condition(NAME, "PeersReady")["status"] == "True"
    plane.kubectl("delete", *THINGS)
    plane.until_condition(NAME, "ChangesRefused", "False", "Accepted", seconds=90)
    plane.until(
        "rank 1 is gone",
        lambda: set(plane.pods(NAME)) == {f"{NAME}-0", "probe"},
        lambda: plane.pods(NAME),
    )
