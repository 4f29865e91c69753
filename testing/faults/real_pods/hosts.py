"""The containers of the cluster's nodes as seen from this machine, through cgroups and /proc.

This works even if the kubelet or containerd of a node is stopped.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster import Cluster, cgroups
from cluster.process import start_time
from cluster.state import cgroup

_POD = re.compile(r"pod([0-9a-f-]{36})$")


@dataclass(frozen=True)
class Box:
    """A container with processes: its node, its pod's uid, its id, and its pids, lowest first."""

    node: str
    pod: str
    container: str
    pids: tuple[int, ...]

    @property
    def pause(self) -> int:
        """Return the pid of the pause process if this is a sandbox, else 0."""
        return next((pid for pid in self.pids if comm(pid) == "pause"), 0)

    @property
    def first(self) -> int:
        """Return the process that is PID 1 of the container; 0 if it has ended."""
        return next((pid for pid in self.pids if pid_inside(pid) == 1), 0)


def boxes(cluster: Cluster) -> list[Box]:
    """Return all containers of the cluster that have processes."""
    base = next(
        (path for top in cgroups.hierarchies() if (path := top / _group(cluster)).is_dir()), None
    )
    return list(_below(base)) if base else []


def _group(cluster: Cluster) -> str:
    return cgroup(cluster.state).strip("/")


def _below(base: Path) -> Iterator[Box]:
    for directory, _, _ in os.walk(base):
        path = Path(directory)
        if not (pod := _POD.search(path.parent.name)):
            continue
        pids: list[int] = []
        with suppress(OSError):
            pids = [int(line) for line in (path / "cgroup.procs").read_text().split()]
        # A zombie does not count as a process.
        if alive := sorted(pid for pid in pids if start_time(pid) is not None):
            yield Box(path.relative_to(base).parts[0], pod[1], path.name, tuple(alive))


def comm(pid: int) -> str:
    """Return the name of a process; "" if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0 if the process has ended."""
    return int(_status(pid, "PPid") or 0)


def pid_inside(pid: int) -> int:
    """Return the pid of a process in its innermost namespace; 0 if the process has ended."""
    # NSpid lists the pid in each nested namespace, the innermost last.
    return int((_status(pid, "NSpid") or "0").split()[-1])


def _status(pid: int, field: str) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    return ""


def environ(pid: int) -> dict[str, str]:
    """Return the environment of a process; {} if it has ended."""
    text = b""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/environ").read_bytes()
    pairs = (entry.partition("=") for entry in text.decode(errors="replace").split("\0") if entry)
    return {name: value for name, _, value in pairs}


def text(pid: int, path: str) -> str:
    """Return the content of a file in the root of a process; "" if it cannot be read."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/root{path}").read_text()
    return ""


def changed(pid: int, path: str) -> float | None:
    """Return when a file was last changed (epoch seconds); None if the file does not exist."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/root{path}").stat().st_mtime
    return None


def sockets(pid: int) -> str:
    """Return /proc/net/tcp and tcp6 of the network namespace of a process."""
    found = []
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/net/{name}").read_text())
    return "\n".join(found)
