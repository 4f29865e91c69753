"""A small file system for the kubelet of each embedded node.

A test can fill it without touching the machine's disk. It is a tmpfs at /var/lib/kubelet, which
contains the volumes of pods. Its content is lost when the node is powered off and all containers
that use it have ended; a real disk would keep it.
"""

import os
from contextlib import suppress
from pathlib import Path

from cluster.errors import ClusterError
from cluster.process import Process

FOLDER = "var/lib/kubelet"
_RECORD, _FILE = "disk-mb", "full"


def give(state: Path, megabytes: int) -> None:
    """Set the size for nodes that start from now on; 0 disables the file system."""
    if megabytes:
        (state / _RECORD).write_text(str(megabytes))


def size(state: Path) -> str:
    """Return the size of a node's own file system as a mount option; "" if the nodes use the
    machine's disk.
    """
    record = state / _RECORD
    return f"{record.read_text()}m" if record.exists() else ""


def eviction(state: Path) -> dict[str, object]:
    """Return the kubelet's eviction settings. A kubelet with its own file system evicts pods when
    the file system is full. A kubelet on the machine's disk never evicts pods for this reason,
    because that disk may be almost full anyway.
    """
    hard = {
        "memory.available": "100Mi",
        "nodefs.available": "10%" if size(state) else "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
    }
    return {"evictionHard": hard, "evictionPressureTransitionPeriod": "10s"}


def fill(state: Path, holder: Process) -> int:
    """Fill the file system, and return the number of bytes written."""
    if not size(state):
        raise ClusterError("the nodes of this cluster have no separate disk")
    with (_path(holder)).open("wb") as file:
        left = os.fstatvfs(file.fileno())
        free = left.f_bavail * left.f_frsize
        os.posix_fallocate(file.fileno(), 0, free)
    return free


def empty(holder: Process) -> None:
    """Free the space again, unless the node was powered off in the meantime."""
    with suppress(FileNotFoundError):
        _path(holder).unlink()


def _path(holder: Process) -> Path:
    return Path(f"/proc/{holder.pid}/root") / FOLDER / _FILE
