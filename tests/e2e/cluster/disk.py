"""A small file system for the kubelet of each embedded node, which can be filled without touching
the machine's disk.

It is a tmpfs at /var/lib/kubelet, where the volumes of pods are. What it holds ends with the node's
power, when all containers that use it have ended; a real disk would keep it.
"""

import os
from contextlib import suppress
from pathlib import Path

from cluster.errors import ClusterError
from cluster.process import Process

FOLDER = "var/lib/kubelet"
_RECORD, _FILE = "disk-mb", "full"


def give(state: Path, megabytes: int) -> None:
    """Nodes of this cluster that start from now on have so large a one; with 0 none."""
    if megabytes:
        (state / _RECORD).write_text(str(megabytes))


def size(state: Path) -> str:
    """Its size in mount's words, "" where nodes have none."""
    record = state / _RECORD
    return f"{record.read_text()}m" if record.exists() else ""


def eviction(state: Path) -> dict[str, object]:
    """The kubelet's settings: with a disk of its own it ends pods when that is full, and forgets it
    soon after there is room again. The machine's may be rather full.
    """
    hard = {
        "memory.available": "100Mi",
        "nodefs.available": "10%" if size(state) else "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
    }
    return {"evictionHard": hard, "evictionPressureTransitionPeriod": "10s"}


def fill(state: Path, holder: Process) -> int:
    """Take all that is left of it; how many bytes that were."""
    if not size(state):
        raise ClusterError("the nodes of this cluster have no separate disk")
    with (_path(holder)).open("wb") as file:
        left = os.fstatvfs(file.fileno())
        free = left.f_bavail * left.f_frsize
        os.posix_fallocate(file.fileno(), 0, free)
    return free


def empty(holder: Process) -> None:
    """Give it back; nothing where the node has lost its power meanwhile."""
    with suppress(FileNotFoundError):
        _path(holder).unlink()


def _path(holder: Process) -> Path:
    return Path(f"/proc/{holder.pid}/root") / FOLDER / _FILE
