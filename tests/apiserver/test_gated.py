"""A queue that holds pods with scheduling gates, as Kueue does with plain pods (docs/queues.md)."""

import json

import pytest
from apiserver.plane import Plane, changed, job
from pages import ROOT

pytestmark = pytest.mark.apiserver

GATE = "kueue.x-k8s.io/admission"
QUEUE = "kueue.x-k8s.io/queue-name"
NAME = "queued"


def test_a_job_with_scheduling_gates_starts_when_they_are_removed(
    plane: Plane, untouched: str
) -> None:
    """In this test the template has the gates. With Kueue, a webhook adds them."""
    assert f"{QUEUE}: team-a" in (ROOT / "docs/queues.md").read_text()
    made = job(NAME, minReplicas=2, maxReplicas=2, scheduleTimeoutSeconds=5)
    made = changed(made, "spec.template.spec.schedulingGates", [{"name": GATE}])
    made = changed(made, "spec.template.metadata", {"labels": {QUEUE: "team-a"}})
    try:
        plane.apply(made)
        plane.until_condition(NAME, "AddressesReady", "False", "ranks 0-1")
        before = plane.uids(NAME)
        assert all(
            pod["metadata"]["labels"][QUEUE] == "team-a"
            and pod["spec"]["schedulingGates"] == [{"name": GATE}]
            for pod in plane.pods(NAME).values()
        )
        plane.until_condition(NAME, "AddressesReady", "False", "SchedulingGated", seconds=20)
        away = json.dumps([{"op": "remove", "path": "/spec/schedulingGates"}])
        for pod in sorted(before):
            plane.kubectl("patch", "pod", pod, "--type", "json", "-p", away)
        plane.until_condition(NAME, "Running", "True", "all 2 ranks are running")
        assert plane.uids(NAME) == before
    finally:
        plane.remove(f"dijob/{NAME}")
