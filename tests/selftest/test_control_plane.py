"""The control plane without nodes: simulated pods, the audit log, two planes in parallel."""

import json
from collections.abc import Iterator

import pytest
import yaml
from cluster import CONTROL_PLANE, Cluster, Options, teardown, up
from selftest.web import NAME, field

pytestmark = pytest.mark.e2e

GATED = """
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  initContainers: [{name: dijob-gate, image: none}]
  containers: [{name: di-container, image: none}]
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[Cluster]:
    with up(Options(f"{NAME}-plane", CONTROL_PLANE, kwok_nodes=3)) as running:
        yield running


def test_a_simulated_pod_passes_the_gate_in_two_steps(plane: Cluster) -> None:
    plane.run_kubectl("apply", "-f", "-", stdin=GATED)
    plane.run_kubectl("wait", "--for=jsonpath={.status.podIP}", "pod/gated", "--timeout=20s")
    assert field(plane, "pod gated", ".status.phase") == "Pending"
    waiting = ".status.containerStatuses[0].state.waiting.reason"
    assert field(plane, "pod gated", waiting) == "PodInitializing"
    address = field(plane, "pod gated", ".status.podIP")
    plane.run_kubectl("annotate", "pod", "gated", f"diengine.opendilab.org/node-ips={address}")
    plane.run_kubectl("wait", "--for=condition=Ready", "pod/gated", "--timeout=20s")
    assert field(plane, "pod gated", ".status.podIP") == address


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("7", "Failed")])
def test_a_simulated_pod_ends_as_its_annotation_says(plane: Cluster, code: str, phase: str) -> None:
    name = f"ends-{code}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"test.dijob/exit": code, "test.dijob/exit-delay": "100ms"},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "di-container", "image": "none"}],
        },
    }
    plane.run_kubectl("apply", "-f", "-", stdin=yaml.safe_dump(pod))
    plane.run_kubectl(
        "wait", f"--for=jsonpath={{.status.phase}}={phase}", f"pod/{name}", "--timeout=20s"
    )
    assert (
        field(plane, f"pod {name}", ".status.containerStatuses[0].state.terminated.exitCode")
        == code
    )


def test_every_request_is_in_the_audit_log(plane: Cluster) -> None:
    plane.run_kubectl("get", "configmaps", "-n", "kube-public")
    events = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    seen = [
        e["verb"]
        for e in events
        if e["requestURI"].startswith("/api/v1/namespaces/kube-public/configmaps?")
    ]
    assert "list" in seen
    assert {"Metadata"} == {event["level"] for event in events}


def test_two_control_planes_run_in_parallel(plane: Cluster) -> None:
    with up(Options(f"{NAME}-plane-2", CONTROL_PLANE, kwok_nodes=0)) as other:
        assert other.endpoint.port != plane.endpoint.port
        uids = {field(c, "namespace kube-system", ".metadata.uid") for c in (plane, other)}
        assert len(uids) == 2
    assert plane.problems() == []
    assert teardown.leftovers(other.state) == []
