"""Nodes with room for four ranks, and jobs that need one CPU per rank on these nodes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml
from apiserver.plane import Body, Plane, changed, job

# Nodes with room for two pods each.
NODES = ("gang-0", "gang-1")
POOL = {"pool": "gang"}
# With this annotation, a simulated pod ends with this code.
EXIT = "test.dijob/exit"


@contextmanager
def room_for_four(plane: Plane) -> Iterator[Plane]:
    """Yield the control plane with nodes for four ranks."""
    room = {"cpu": "2", "memory": "1Gi", "pods": "20"}
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {**POOL, "type": "kwok"}},
            "status": {"capacity": room, "allocatable": room},
        }
        for name in NODES
    ]
    plane.kubectl("create", "-f", "-", stdin=yaml.safe_dump_all(nodes))
    yield plane
    plane.kubectl("delete", "node", *NODES)


def in_pool(body: Body, path: str = "spec.template") -> Body:
    """Return a job whose pods need one CPU on a node of the pool."""
    body = changed(body, f"{path}.spec.nodeSelector", POOL)
    return changed(body, f"{path}.spec.containers.0.resources", {"requests": {"cpu": "1"}})


def gang(name: str, engine: str, replicas: int = 3, **spec: Any) -> Body:
    """Return a job with this engine in the pool."""
    fields = {"replicas": replicas, "scheduling": {"engine": engine}, "service": "Auto", **spec}
    return in_pool(job(name, **fields))


def placed(plane: Plane, name: str) -> set[str]:
    """Return the pods of a job that have a node."""
    pods = plane.pods(name).items()
    return {pod for pod, body in pods if body["spec"].get("nodeName")}


def clear(plane: Plane, *names: str) -> None:
    """Delete jobs, and their pods. The garbage collector would do it, but it may not know the kind
    of the job yet, and looks for new kinds only every 30 s.
    """
    for name in names:
        plane.kubectl("delete", "dijob", name, "--ignore-not-found")
        pods = ("pods", "-l", f"diengine.opendilab.org/job={name}")
        plane.kubectl("delete", *pods, "--grace-period=0", "--wait=false")
        plane.until_no_pods(name)


def succeed(plane: Plane, *pods: str) -> None:
    """Make the programs of these pods end with code 0."""
    plane.kubectl("annotate", "pod", *pods, f"{EXIT}=0")


def lose(plane: Plane, pod: str, seconds: float = 30) -> None:
    """Delete a pod, and wait until its successor has a node."""
    name = pod.rpartition("-")[0]
    before = plane.uids(name)[pod]
    plane.kubectl("delete", "pod", pod, "--wait=false", "--grace-period=0")
    plane.until(
        f"the successor of {pod} has a node",
        lambda: plane.uids(name).get(pod, before) != before and pod in placed(plane, name),
        lambda: (plane.get("dijob", name) or {}).get("status"),
        seconds,
    )


def suspend(plane: Plane, name: str, value: str) -> None:
    """Suspend a job ("true"), or resume it ("false")."""
    patch = f'{{"spec": {{"suspend": {value}}}}}'
    plane.kubectl("patch", "dijob", name, "--type=merge", "-p", patch)
