"""The remains of pods that no longer exist: processes, and containers that containerd knows of."""

import json

from cluster.errors import ClusterError
from cluster.namespace import enter
from cluster.shell import run
from space import Space

from faults.real_pods import hosts


def processes(space: Space) -> list[str]:
    """Describe containers that have processes, but whose pods do not exist in the apiserver."""
    # Pods of all namespaces, because the cluster's own pods have containers too.
    answer = space.api.core.list_pod_for_all_namespaces(_preload_content=False)
    pods = {pod["metadata"]["uid"] for pod in json.loads(answer.data)["items"]}
    return [
        f"{box.node}: pod {box.pod}: {[hosts.comm(pid) for pid in box.pids]}"
        for box in hosts.boxes(space.cluster)
        if box.pod not in pods
    ]


def alive(space: Space) -> list[str]:
    """Describe the pods of the namespace, and processes of deleted pods."""
    pods = [pod["metadata"]["name"] for pod in space.api.pods(space.name, "")]
    return [f"pod {name}" for name in pods] + processes(space)


def known(space: Space) -> list[str]:
    """Describe everything that `alive` describes, and the namespace's containers and sandboxes
    that containerd still knows of. The kubelet removes these once a minute.
    """
    found = alive(space)
    for name in space.cluster.nodes:
        found += [f"{name}: container {id_}" for id_ in _containers(space, name)]
    return found


def _containers(space: Space, node: str) -> list[str]:
    its = space.cluster.node(node)
    label = f'labels."io.kubernetes.pod.namespace"=={space.name}'
    ctr = ["/run/bin/ctr", "--address=/run/containerd/containerd.sock", "--namespace=k8s.io"]
    try:
        return run([*enter(its.holder), *ctr, "containers", "ls", "-q", label]).split()
    # A node that does not answer is a violation as well, and is reported.
    except ClusterError as error:
        return [str(error)]
