"""A kubelet that has lost the record of how a container ended: the pod's events say it."""

from typing import Any

import pytest
import yaml
from apiserver.plane import NAMESPACE, Body, Plane, changed, job
from dijob.api.status import format_time
from dijob.process.clock import SYSTEM

pytestmark = pytest.mark.apiserver

PROBE = {"exec": {"command": ["cat", "/no/such"]}}
RESULT = "cat: /no/such: No such file or directory"


def event(pod: Body, number: int, **fields: Any) -> Body:
    """Return an event that the kubelet has sent about the main container of a pod."""
    main, now = pod["spec"]["containers"][0]["name"], format_time(SYSTEM.now())
    about = {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": NAMESPACE,
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "fieldPath": f"spec.containers{{{main}}}",
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod['metadata']['name']}.{number}"},
        "involvedObject": about,
        "source": {"component": "kubelet"},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        **fields,
    }


def restart_without_record(plane: Plane, pod: Body) -> None:
    """Write the status of a pod as a kubelet does that has restarted the main container, and has
    discarded the record of its end before that.
    """
    main = pod["spec"]["containers"][0]["name"]
    running = {"running": {"startedAt": format_time(SYSTEM.now())}}
    statuses = [
        one | {"restartCount": 1, "state": running, "lastState": {}} if one["name"] == main else one
        for one in pod["status"]["containerStatuses"]
    ]
    patch = yaml.safe_dump({"status": {"containerStatuses": statuses}})
    name = pod["metadata"]["name"]
    plane.kubectl("patch", "pod", name, "--subresource=status", "--type=merge", "-p", patch)


@pytest.mark.parametrize("explained", [True, False], ids=["an event", "no event"])
def test_a_failure_without_a_record_is_explained_by_its_events(
    plane: Plane, explained: bool
) -> None:
    name = f"unrecorded-{str(explained).lower()}"
    made = job(name, minReplicas=1, maxReplicas=1, backoffLimit=0)
    plane.apply(changed(made, "spec.template.spec.containers.0.livenessProbe", PROBE))
    plane.until_condition(name, "Running", "True", seconds=60)
    (pod,) = plane.pods(name).values()
    words = "failed, but its node has no record of how"
    if explained:
        main = pod["spec"]["containers"][0]["name"]
        killed = f"Container {main} failed liveness probe, will be restarted"
        failed = f"Liveness probe failed: {RESULT}\n"
        plane.apply(
            event(pod, 1, type="Warning", reason="Unhealthy", message=failed),
            event(pod, 2, type="Normal", reason="Killing", message=killed),
        )
        words = f"was killed by the kubelet: its liveness probe failed: {RESULT}"
    restart_without_record(plane, pod)
    plane.until_condition(name, "Failed", "True", f"the first failure: rank 0 {words}")
    plane.remove(f"dijob/{name}")
