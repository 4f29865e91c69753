"""Builds jobs, pods and events as the apiserver returns them, for tests of the page."""

from typing import Any

from dijob.client import Job, RankPod
from manifests import dijob

Body = dict[str, Any]
CREATED = "2026-11-25T11:58:00Z"
PREFIX = "diengine.opendilab.org"


def job(name: str = "test", *, spec: Body | None = None, **status: Any) -> Job:
    """Return a running job of three ranks, changed by `spec` and `status`."""
    body = dijob(name, {"image": "x", "command": ["a"]}, **{"replicas": 3, **(spec or {})})
    body["metadata"] |= {"namespace": "ns", "uid": f"uid-{name}", "creationTimestamp": CREATED}
    known = {"phase": "Running", "desired": 3, "readyReplicas": 3, "listNumber": 1}
    known |= {"topology": "mesh", "parallelWorkers": 1, "startTime": CREATED}
    known |= {"addressList": {"size": 3}}
    return Job({**body, "status": {**known, **status}})


def condition(kind: str, reason: str, *, true: bool = True, **more: str) -> Body:
    """Return a condition."""
    at = {"lastTransitionTime": "2026-11-25T11:58:20Z"}
    return {"type": kind, "status": str(true), "reason": reason, **at, **more}


def pod(rank: int, *, state: Body | None = None, task: str = "", **main: Any) -> RankPod:
    """Return the pod of a rank. It is Ready, unless the other arguments change that."""
    labels = {f"{PREFIX}/rank": str(rank)} | ({"diengine/task-name": task} if task else {})
    meta = {"name": f"test-{rank}", "namespace": "ns", "uid": f"pod-{rank}", "labels": labels}
    meta |= {"annotations": {f"{PREFIX}/list-number": "1"}}
    shown = {"name": "di-container", "ready": state is None, "restartCount": 0, **main}
    shown |= {"state": state or {"running": {}}}
    status = {"phase": "Running", "podIP": f"10.0.0.{rank}", "containerStatuses": [shown]}
    spec = {"nodeName": "n1", "containers": [{"name": "di-container"}]}
    return RankPod({"metadata": meta, "spec": spec, "status": status}, rank)


def ended(code: int) -> Body:
    """Return the state of a container that has ended."""
    return {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}


def event(reason: str, message: str = "", *, at: str = CREATED, **more: Any) -> Body:
    """Return an event about the job."""
    return {
        "type": "Normal",
        "reason": reason,
        "message": message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        **more,
    }
