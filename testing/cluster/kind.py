"""Starts and controls a kind cluster, if a Docker engine responds and kind is installed."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from cluster.errors import ClusterError
from cluster.shell import run

WORKERS = 2


def usable() -> bool:
    """Return whether kind is in PATH and a Docker engine responds."""
    if not (shutil.which("kind") and shutil.which("docker")):
        return False
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def up(name: str, kubeconfig: Path) -> tuple[str, ...]:
    """Create the cluster and write its kubeconfig. Return the names of the workers."""
    config = {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "networking": {"serviceSubnet": "10.96.0.0/16", "podSubnet": "10.244.0.0/16"},
        "nodes": [{"role": "control-plane"}, *({"role": "worker"} for _ in range(WORKERS))],
    }
    run(
        [
            "kind",
            "create",
            "cluster",
            f"--name={name}",
            f"--kubeconfig={kubeconfig}",
            "--config=-",
            "--wait=120s",
        ],
        stdin=yaml.safe_dump(config),
        timeout=900,
    )
    return tuple(f"{name}-worker{'' if n == 1 else n}" for n in range(1, WORKERS + 1))


def down(name: str) -> None:
    """Delete the cluster."""
    run(["kind", "delete", "cluster", f"--name={name}"], timeout=300)


def load(name: str, archives: Sequence[Path]) -> None:
    """Load image archives into every node."""
    for archive in archives:
        run(["kind", "load", "image-archive", str(archive), f"--name={name}"], timeout=900)


def stop_node(name: str, node: str) -> None:
    """Kill a node's container."""
    _check(name, node)
    run(["docker", "kill", node])


def start_node(name: str, node: str) -> None:
    """Start a node's container again."""
    _check(name, node)
    run(["docker", "start", node])


def problems(name: str) -> list[str]:
    """Return the cluster's problems; [] if kind lists the cluster."""
    known = run(["kind", "get", "clusters"]).split()
    return [] if name in known else [f"kind has no cluster {name}"]


def _check(name: str, node: str) -> None:
    known = run(["kind", "get", "nodes", f"--name={name}"]).split()
    if node not in known:
        raise ClusterError(f"no node {node}; nodes of {name}: {', '.join(sorted(known))}")
