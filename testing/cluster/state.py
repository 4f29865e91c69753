"""The folder with a cluster's state, and names that are derived from it."""

import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import ClusterError


def root() -> Path:
    """Return the folder that contains all clusters: $DIJOB_CLUSTER_DIR if it is set. The default is
    /var/lib/dijob-cluster for root. For other users, it is in $XDG_RUNTIME_DIR or ~/.local/state.
    """
    if chosen := os.environ.get("DIJOB_CLUSTER_DIR"):
        return Path(chosen).resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/dijob-cluster")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime or Path.home() / ".local/state") / "dijob-cluster"


def folder(name: str) -> Path:
    """Return the folder of the cluster with this name."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise ClusterError(
            f"cluster name {name!r}: use at most 40 lower-case letters, digits and '-', e.g. dijob"
        )
    return root() / name


def token(state: Path) -> str:
    """Return 8 hex digits that identify this folder: two clusters with the same name in two folders
    must not share resources.
    """
    return hashlib.sha256(str(state).encode()).hexdigest()[:8]


def cgroup(state: Path) -> str:
    """Return the cgroup directory of the cluster's nodes."""
    return f"/dijob-{token(state)}"


def interface(state: Path) -> str:
    """Return the machine's network interface that is connected to the cluster."""
    return f"dj{token(state)}"


@contextmanager
def exclusive(state: Path) -> Iterator[None]:
    """Allow one `up` or `down` of a cluster at a time. The lock is an abstract socket, which leaves
    no file and ends with its process.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0dijob-cluster-{token(state)}")
        except OSError:
            raise ClusterError(
                f"another up or down of {state.name} is running; wait until it has finished"
            ) from None
        yield
