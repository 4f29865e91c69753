"""Where a cluster keeps its state, and the names that are derived from that place."""

import hashlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import ClusterError


def root() -> Path:
    """The folder of all clusters: $DIJOB_CLUSTER_DIR, else /var/lib/dijob-cluster, or the user's
    own run folder.
    """
    if chosen := os.environ.get("DIJOB_CLUSTER_DIR"):
        return Path(chosen).resolve()
    if os.geteuid() == 0:
        return Path("/var/lib/dijob-cluster")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime or Path.home() / ".local/state") / "dijob-cluster"


def folder(name: str) -> Path:
    """The folder of the cluster of that name."""
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", name):
        raise ClusterError(
            f"cluster name {name!r}: use at most 40 lower-case letters, digits and '-', e.g. dijob"
        )
    return root() / name


def token(state: Path) -> str:
    """8 hex digits that stand for this place: two clusters of one name in two folders must not
    share a thing.
    """
    return hashlib.sha256(str(state).encode()).hexdigest()[:8]


def cgroup(state: Path) -> str:
    """The cgroup directory of the cluster's nodes."""
    return f"/dijob-{token(state)}"


def interface(state: Path) -> str:
    """The one network interface on this machine that leads into the cluster."""
    return f"dj{token(state)}"


@contextmanager
def exclusive(state: Path) -> Iterator[None]:
    """One `up` or `down` of a cluster at a time: an abstract socket leaves no file and ends with
    its process.
    """
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0dijob-cluster-{token(state)}")
        except OSError:
            raise ClusterError(
                f"another up or down of {state.name} is running; wait until it has finished"
            ) from None
        yield
