"""Faults of the operators (the leader or the standby)."""

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from kubernetes import client
from space import HOME

from faults.real_pods import hosts, looks
from faults.real_pods.scene import Act, Done, Missed, Scene

SELECTOR = "app.kubernetes.io/name=dijob"


def _operators(scene: Scene) -> dict[str, str]:
    """Return the operators' pods with their uids."""
    found = scene.space.api.pods(HOME, SELECTOR)
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}


def _leader(scene: Scene) -> str:
    """Return the pod of the leader. Raise Missed if there is none."""
    name, _ = scene.leader.now()
    # After a crash the Lease still names the former leader for some seconds.
    if name not in _operators(scene):
        raise Missed(f"the holder of the Lease, {name or 'none'}, has no pod")
    return name


def _alone(scene: Scene, leader: str) -> bool:
    """Return whether there is no running standby, for example because a full disk led to its
    eviction. After its node reboots, the standby's pod is shown as Ready although its process is
    gone.
    """
    pods = scene.space.api.pods(HOME, SELECTOR)
    others = (pod for pod in pods if pod["metadata"]["name"] != leader)
    return not any(looks.runs(pod) and _pids(scene, pod["metadata"]["uid"]) for pod in others)


def _other(scene: Scene) -> str:
    name, _ = scene.leader.now()
    others = sorted(set(_operators(scene)) - {name})
    if not others:
        raise Missed("there is no standby")
    return others[0]


def _signal(scene: Scene, pod: str, number: signal.Signals, pause: bool = False) -> list[int]:
    """Send a signal to the processes of an operator, or of its sandbox, and return their pids."""
    pids = _pids(scene, _operators(scene)[pod], pause)
    if not pids:
        raise Missed(f"nothing runs in {pod}")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def _pids(scene: Scene, uid: str, pause: bool = False) -> list[int]:
    """Return the processes of an operator's pod, or of its sandbox."""
    # By uid, so that no process of a replaced pod of the same name is found.
    mine = (box for box in hosts.boxes(scene.space.cluster) if box.pod == uid)
    return [pid for box in mine if bool(box.pause) is pause for pid in box.pids]


def killed(scene: Scene, _: str, leader: bool) -> Done:
    """Kill the process with kill -9."""
    pod = _leader(scene) if leader else _other(scene)
    # This is checked before the kill, because the answer would be different afterwards.
    alone = leader and _alone(scene, pod)
    return Done(f"{pod}, pids {_signal(scene, pod, signal.SIGKILL)}", alone=alone)


def removed(scene: Scene, _: str) -> Done:
    """Kill the sandbox with kill -9, and force the deletion of the pod: the operator gets no
    SIGTERM.
    """
    pod = _leader(scene)
    _signal(scene, pod, signal.SIGKILL, pause=True)
    # The kubelet would restart the sandbox, so the pod is deleted by force as well.
    return _delete(scene, pod, 0)


def deleted(scene: Scene, _: str) -> Done:
    """Delete the pod, so that its process gets SIGTERM."""
    return _delete(scene, _leader(scene), None)


def _delete(scene: Scene, pod: str, grace: int | None) -> Done:
    alone = _alone(scene, pod)
    try:
        scene.space.api.core.delete_namespaced_pod(pod, HOME, grace_period_seconds=grace)
    except client.ApiException as error:
        raise Missed(f"{pod}: the apiserver says {error.status}") from error
    return Done(pod, alone=alone)


def stopped(scene: Scene, _: str) -> Done:
    """Stop the process with SIGSTOP, and resume it afterwards."""
    pod = _leader(scene)
    alone, pids = _alone(scene, pod), _signal(scene, pod, signal.SIGSTOP)
    return Done(f"{pod}, pids {pids}", partial(_go_on, pids), alone)


def _go_on(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


ACTS: Mapping[str, Act] = {
    "operator killed": partial(killed, leader=False),
    "leader killed": partial(killed, leader=True),
    "leader's pod killed and removed": removed,
    "leader deleted": deleted,
    "leader stopped": stopped,
}
