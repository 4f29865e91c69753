"""Observes jobs: their objects in the apiserver, and their processes on this machine."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from space import MAIN, RANK_LABEL, Body, Space

from faults.real_pods import hosts
from faults.real_pods.hosts import Box
from faults.real_pods.judge import Job, Seen
from faults.real_pods.shapes import Shape

BEAT = "/tmp/beat"
TOPOLOGY = "/run/dijob/topology.json"
SHIM = "containerd-shim"


@dataclass(frozen=True)
class View:
    """One observation: pods by name, and containers by the uid of their pod."""

    pods: dict[str, Body]
    boxes: dict[str, list[Box]]

    @staticmethod
    def of(space: Space) -> "View":
        pods = {pod["metadata"]["name"]: pod for pod in space.api.pods(space.name, "")}
        found: dict[str, list[Box]] = {}
        for box in hosts.boxes(space.cluster):
            found.setdefault(box.pod, []).append(box)
        return View(pods, found)

    def box(self, pod: str, container: str = MAIN) -> Box | None:
        """Return a container of a pod, with its processes; None if the container has none."""
        body = self.pods.get(pod, {})
        ids = {
            one["name"]: one.get("containerID", "").rpartition("/")[2]
            for one in body.get("status", {}).get("containerStatuses") or ()
        }
        # By uid, because another pod with the same name may just have replaced this one.
        mine = self.boxes.get(body.get("metadata", {}).get("uid", ""), [])
        return next((box for box in mine if box.container == ids.get(container)), None)

    def pause(self, pod: str) -> int:
        """Return the pid of a pod's pause process; 0 if it has none."""
        uid = self.pods.get(pod, {}).get("metadata", {}).get("uid", "")
        return next((pause for box in self.boxes.get(uid, []) if (pause := box.pause)), 0)

    def program(self, pod: str) -> list[int]:
        """Return the running processes that the launcher of a pod has started."""
        box = self.box(pod)
        first = box.first if box else 0
        # The launcher is PID 1 of the container, and its children are the programs.
        return [pid for pid in box.pids if hosts.parent(pid) == first] if box and first else []


def jobs(space: Space, shapes: Iterable[Shape], view: View) -> dict[str, Job]:
    """Return all jobs as they are in this observation."""
    return {shape.name: _job(space, shape, view) for shape in shapes}


def _job(space: Space, shape: Shape, view: View) -> Job:
    mine = [pod for pod in view.pods.values() if _owner(pod) == shape.name]
    ranked = [pod for pod in mine if RANK_LABEL in pod["metadata"]["labels"]]
    pods = sorted((_seen(view, pod) for pod in ranked), key=lambda pod: (pod.rank, pod.name))
    server = view.pods.get(shape.server)
    return Job(space.status(shape.name), tuple(pods), _seen(view, server) if server else None)


def _owner(pod: Body) -> str:
    owners: Sequence[Any] = pod["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners if owner["kind"] == "DIJob"), "")


def runs(pod: Body) -> bool:
    """Return whether all containers of a pod are ready, and the pod is not being deleted."""
    status = pod.get("status", {})
    given = status.get("containerStatuses") or ()
    ready = bool(given) and all(one["ready"] for one in given)
    return status.get("phase") == "Running" and ready and "deletionTimestamp" not in pod["metadata"]


def _seen(view: View, pod: Body) -> Seen:
    meta, status, name = pod["metadata"], pod.get("status", {}), pod["metadata"]["name"]
    given = status.get("containerStatuses") or ()
    box, pause = view.box(name, given[0]["name"] if given else MAIN), view.pause(name)
    first = box.first if box else 0
    # The launcher's own environment does not have the variables of the peer list.
    envs = [hosts.environ(pid) for pid in box.pids if pid != first] if box else []
    # The file's modification time is used rather than its content, because touching a file is
    # atomic.
    beaten = hosts.changed(first, BEAT)
    return Seen(
        name=name,
        uid=meta["uid"],
        ip=status.get("podIP", ""),
        rank=int(meta["labels"].get(RANK_LABEL, -1)),
        running=runs(pod),
        sandbox=bool(pause) and hosts.comm(hosts.parent(pause)).startswith(SHIM),
        programs=len(view.program(name)),
        envs=tuple(env for env in envs if "DI_JOB_ID" in env),
        topology=hosts.text(first, TOPOLOGY),
        sockets=hosts.sockets(first),
        beat=None if beaten is None else round(time.time() - beaten, 1),
    )


def running(view: View) -> dict[tuple[str, str], set[str]]:
    """Return, for each rank, the uids of the pods in which its program is running. Each key is the
    pair of a job's uid and a rank.
    """
    found: dict[tuple[str, str], set[str]] = {}
    for box in (box for boxes in view.boxes.values() for box in boxes):
        for env in (hosts.environ(pid) for pid in box.pids if hosts.parent(pid) == box.first):
            # A process is a rank's program only if its environment has the variables of a peer
            # list.
            if box.first and "DI_RANK" in env and "DI_LIST_NUMBER" in env:
                found.setdefault((env.get("DI_JOB_ID", ""), env["DI_RANK"]), set()).add(box.pod)
    return found
