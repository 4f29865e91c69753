"""Faults of one node: its programs, its power, its disk."""

import signal
from collections.abc import Mapping
from functools import partial

from cluster import Cluster, disk
from cluster.errors import ClusterError

from faults.real_pods.scene import Act, Done, Missed, Scene


def stopped(scene: Scene, node: str, part: str) -> Done:
    """Stop a process on the node with SIGSTOP, and resume it afterwards."""
    name = f"{node}-{part}"
    _signal(scene.space.cluster, name, signal.SIGSTOP)
    return Done(name, partial(_signal, scene.space.cluster, name, signal.SIGCONT))


def _signal(cluster: Cluster, name: str, number: signal.Signals) -> None:
    try:
        cluster.signal_component(name, number)
    except ClusterError as error:
        raise Missed(str(error)) from error


def killed(scene: Scene, node: str, part: str) -> Done:
    """Kill a process on the node with kill -9, and start it again afterwards."""
    name, cluster = f"{node}-{part}", scene.space.cluster
    try:
        cluster.stop_component(name)
    except ClusterError as error:
        raise Missed(str(error)) from error
    return Done(name, partial(cluster.start_component, name))


def without_power(scene: Scene, node: str) -> Done:
    """Kill all processes on the node at once, and start the node again afterwards."""
    scene.space.cluster.stop_node(node)
    return Done(node, partial(scene.space.cluster.start_node, node))


def disk_full(scene: Scene, node: str) -> Done:
    """Create a file that fills the file system of the node's pods to the last byte."""
    try:
        holder = scene.space.cluster.node(node).holder
        free = disk.fill(scene.space.cluster.state, holder)
    except ClusterError as error:
        raise Missed(str(error)) from error
    return Done(f"{free} bytes", partial(disk.empty, holder))


KUBELET, CONTAINERD = "kubelet", "containerd"
ACTS: Mapping[str, Act] = {
    "kubelet stopped": partial(stopped, part=KUBELET),
    "kubelet silent": partial(stopped, part=KUBELET),
    "kubelet killed": partial(killed, part=KUBELET),
    "containerd stopped": partial(stopped, part=CONTAINERD),
    "containerd killed": partial(killed, part=CONTAINERD),
    "node lost for a moment": without_power,
    "node lost": without_power,
    "disk of a node full": disk_full,
}
