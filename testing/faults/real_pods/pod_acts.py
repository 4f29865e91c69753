"""Faults of one pod: deleting it, killing its processes with kill -9, and cutting its network."""

import os
import re
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from cluster.errors import ClusterError
from cluster.namespace import ip
from cluster.process import Process
from cluster.waiting import NotWithin, until_true
from kubernetes import client

from faults.real_pods import hosts
from faults.real_pods.looks import SHIM, View
from faults.real_pods.scene import Act, Done, Missed, Scene
from faults.real_pods.shapes import owner

# How long to wait for the target process. If another fault has just ended this process, the wait
# gives its replacement time to start.
PATIENCE_SECONDS = 8.0


def deleted(scene: Scene, pod: str, grace: int | None = None) -> Done:
    """Delete the pod, with its own grace period or with `grace` seconds."""
    api = scene.space.api.core
    try:
        # The uid goes into the story, to tell the pod from its replacement.
        uid = api.read_namespaced_pod(pod, scene.space.name).metadata.uid
        api.delete_namespaced_pod(pod, scene.space.name, grace_period_seconds=grace)
    except client.ApiException as error:
        raise Missed(f"the apiserver returned {error.status}") from error
    return Done(f"uid {uid}")


def _look_for(what: str, look: "partial[int]") -> int:
    try:
        return until_true(what, look, PATIENCE_SECONDS, pause=0.2)
    except NotWithin as absent:
        raise Missed(f"no {what}") from absent


def _kill(pid: int) -> Done:
    name = hosts.comm(pid)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError as gone:
        raise Missed("the process has just ended") from gone
    return Done(f"pid {pid} ({name})")


def _program(scene: Scene, pod: str) -> int:
    return next(iter(View.of(scene.space).program(pod)), 0)


def program_killed(scene: Scene, pod: str) -> Done:
    """Use kill -9 on the program that the launcher has started, or on the Redis server, which has
    no launcher.
    """
    # The Redis server is PID 1 of its container.
    look = _server if pod == owner(scene.shapes, pod).server else _program
    return _kill(_look_for("program", partial(look, scene, pod)))


def _server(scene: Scene, pod: str) -> int:
    view = View.of(scene.space)
    given = view.pods.get(pod, {}).get("status", {}).get("containerStatuses") or ()
    box = view.box(pod, given[0]["name"]) if given else None
    return box.first if box else 0


def launcher_killed(scene: Scene, pod: str) -> Done:
    """Kill PID 1 of the container with kill -9, from outside of its pid namespace."""
    return _kill(_look_for("launcher", partial(_server, scene, pod)))


def _pause(scene: Scene, pod: str) -> int:
    return View.of(scene.space).pause(pod)


def sandbox_killed(scene: Scene, pod: str) -> Done:
    """Kill the pause process with kill -9."""
    return _kill(_look_for("sandbox", partial(_pause, scene, pod)))


def _shim(scene: Scene, pod: str) -> int:
    shim = hosts.parent(_pause(scene, pod))
    return shim if hosts.comm(shim).startswith(SHIM) else 0


def shim_killed(scene: Scene, pod: str) -> Done:
    """Use kill -9 on the containerd-shim, which holds the pod's containers."""
    return _kill(_look_for("shim", partial(_shim, scene, pod)))


def network_cut(scene: Scene, pod: str) -> Done:
    """Bring down the node's end of the pod's veth pair. The kernel then removes the routes through
    this device, so they are restored afterwards.
    """
    pause = _look_for("sandbox", partial(_pause, scene, pod))
    # The pause process is in the pod's network namespace. There, eth0 shows the index of its peer.
    inside = Process("sandbox", (), pause, 0)
    node = View.of(scene.space).pods[pod]["spec"]["nodeName"]
    holder = scene.space.cluster.node(node).holder
    try:
        peer = re.search(r"eth0@if(\d+)", ip(inside, "-o", "link", "show", "eth0"))
        links = ip(holder, "-o", "link")
        device = re.search(rf"(?m)^{peer[1]}: (\w+)@", links) if peer else None
        if device is None:
            raise Missed("its veth was not found")
        # The routes are saved first, because the kernel forgets them when the device goes down.
        routes = ip(holder, "route", "show", "dev", device[1]).splitlines()
        ip(holder, "link", "set", device[1], "down")
    except ClusterError as gone:
        raise Missed(str(gone)) from gone
    return Done(f"{device[1]} on {node}", partial(_joined, holder, device[1], routes))


def _joined(holder: Process, device: str, routes: list[str]) -> None:
    # The pod or its node may be gone by now.
    with suppress(ClusterError):
        ip(holder, "link", "set", device, "up")
        for route in routes:
            ip(holder, "route", "replace", *route.replace("linkdown", "").split(), "dev", device)


ACTS: Mapping[str, Act] = {
    "pod deleted": deleted,
    "pod deleted without grace": partial(deleted, grace=0),
    "program killed": program_killed,
    "launcher killed": launcher_killed,
    "sandbox killed": sandbox_killed,
    "shim killed": shim_killed,
    "network of a pod cut": network_cut,
}
