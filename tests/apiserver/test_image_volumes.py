"""How the launcher gets into the pods on a real API server: by its version, and if a policy rejects
image volumes.
"""

import json
from collections.abc import Iterator

import pytest
from apiserver.plane import Body, Plane, job

pytestmark = pytest.mark.apiserver

STRICT, FREE = "no-volumes", "any-volumes"
GROUP = "admissionregistration.k8s.io/v1"
WORDS = "this namespace allows no volumes from images"
POLICY: tuple[Body, ...] = (
    {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": STRICT},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": STRICT}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                    }
                ],
            },
            "validations": [
                {
                    "expression": "!object.spec.?volumes.orValue([]).exists(v, has(v.image))",
                    "message": WORDS,
                }
            ],
        },
    },
    {
        "apiVersion": GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": STRICT},
        "spec": {"policyName": STRICT, "validationActions": ["Deny"]},
    },
)
PROBE: Body = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe", "namespace": STRICT},
    "spec": {
        "containers": [{"name": "a", "image": "example/y"}],
        "volumes": [{"name": "v", "image": {"reference": "example/y"}}],
    },
}


@pytest.fixture
def namespaces(plane: Plane) -> Iterator[None]:
    for name in (STRICT, FREE):
        plane.make_namespace(name)
    try:
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            plane.kubectl("delete", kind, STRICT, "--ignore-not-found")
        plane.kubectl("delete", "namespace", STRICT, FREE, "--wait=false")


def volumes(plane: Plane, namespace: str) -> set[bool]:
    """Return whether the pods of the namespace have image volumes, when all of them run."""
    body = job("world")
    plane.apply({**body, "metadata": {**body["metadata"], "namespace": namespace}})

    def phase() -> str:
        shown = ("-n", namespace, "get", "dijob", "world", "-o", "jsonpath={.status.phase}")
        return plane.kubectl(*shown)

    plane.until(f"the job in {namespace} runs", lambda: phase() == "Running", phase)
    items = json.loads(plane.kubectl("-n", namespace, "get", "pods", "-o", "json"))["items"]
    assert items
    return {any("image" in one for one in pod["spec"]["volumes"]) for pod in items}


def test_the_launcher_is_mounted_unless_version_or_policy_forbid_it(
    plane: Plane, namespaces: None
) -> None:
    version = json.loads(plane.kubectl("get", "--raw", "/version"))
    if int(version["minor"].rstrip("+")) < 36:
        assert volumes(plane, FREE) == {False}
        return
    plane.apply(*POLICY)

    def answer() -> str:
        # Not `apply`: the policy applies to creations, and a first probe may be stored before it.
        probe = ("create", "--dry-run=server", "-f", "-")
        return plane.ask(*probe, stdin=json.dumps(PROBE)).text

    plane.until("the policy is in force", lambda: WORDS in answer(), answer)
    assert volumes(plane, STRICT) == {False}
    assert volumes(plane, FREE) == {True}
    log = plane.log.read_text()
    assert log.count(f"namespace {STRICT}: the API server rejects image volumes") == 1
    assert f"namespace {FREE}" not in log
