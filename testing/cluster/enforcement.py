"""Runs kube-router's policy controller (policies/main.go) on each node of an embedded cluster, to
enforce NetworkPolicies. The cluster's own network does not enforce them.

The controller is not part of `up`; tests build and start it if they need it.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.addresses import IPV4
from cluster.cluster import Cluster
from cluster.errors import ClusterError
from cluster.go_program import build_program
from cluster.namespace import enter
from cluster.process import Process, spawn, stop
from cluster.shell import run

SOURCES = Path(__file__).parent / "policies"
# The prefix of kube-router's chains for pods.
CHAINS = "KUBE-POD-FW-"


@contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """Enforce all policies during the block, and none afterwards."""
    program = build_program(SOURCES, "policies")
    started = list[Process]()
    try:
        for node in cluster.nodes:
            started.append(_start(cluster, node, program))
        yield
    finally:
        for process in started:
            stop(process, signal.SIGTERM)
            (cluster.state / "processes" / f"{process.name}.json").unlink()
    if left := [node for node in cluster.nodes if CHAINS in _rules(cluster, node)]:
        raise ClusterError(f"rules remain on {', '.join(left)}: they would apply to later pods")


def _rules(cluster: Cluster, node: str) -> str:
    return run([*enter(cluster.node(node).holder, mount=False), "iptables-save"])


def _start(cluster: Cluster, node: str, program: Path) -> Process:
    # The program enters only the node's network namespace, because the kubeconfig does not exist in
    # the node's mount namespace.
    argv = [
        *enter(cluster.node(node).holder, mount=False),
        str(program),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--hostname-override={node}",
        f"--service-cluster-ip-range={IPV4.services}",
    ]
    return spawn(cluster.state, f"{node}-policies", argv, cluster.state / node)
