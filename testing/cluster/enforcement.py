"""Enforces NetworkPolicies on the nodes of an embedded cluster with kube-router's policy controller
(policies/main.go), one process per node. The cluster's own network does not enforce them.

The tests that need it build and start it; it is not part of `up`.
"""

import hashlib
import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.addresses import IPV4
from cluster.build import cache, find_go, one_at_a_time
from cluster.cluster import Cluster
from cluster.errors import ClusterError
from cluster.namespace import enter
from cluster.process import Process, spawn, stop
from cluster.shell import Progress, run

SOURCES = Path(__file__).parent / "policies"
BUILD_SECONDS = 900
# Prefix of its chains for pods.
CHAINS = "KUBE-POD-FW-"


@contextmanager
def enforced(cluster: Cluster) -> Iterator[None]:
    """Enforce all policies during the block, and none afterwards."""
    program = _build()
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
    # In the node's network namespace only: its mount namespace does not have the kubeconfig.
    argv = [
        *enter(cluster.node(node).holder, mount=False),
        str(program),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--hostname-override={node}",
        f"--service-cluster-ip-range={IPV4.services}",
    ]
    return spawn(cluster.state, f"{node}-policies", argv, cluster.state / node)


def _build() -> Path:
    """Return the program, which is built once per content of its sources."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update((SOURCES / name).read_bytes())
    program = cache() / f"policies-{digest.hexdigest()[:12]}"
    with one_at_a_time(cache() / "policies.lock"):
        if not program.exists():
            go = find_go(Progress(BUILD_SECONDS))
            flags = "-mod=readonly -buildvcs=false"
            env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOTOOLCHAIN": "local"}
            with tempfile.TemporaryDirectory(prefix="building-", dir=cache()) as scratch:
                made = Path(scratch) / "policies"
                command = [go, "-C", str(SOURCES), "build", "-trimpath", "-ldflags=-s -w"]
                run([*command, "-o", str(made), "."], env=env, timeout=BUILD_SECONDS)
                made.rename(program)
    return program
