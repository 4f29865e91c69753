"""The containers of a cluster's nodes as this machine sees them: by their cgroups and in /proc."""

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
    """One container that has processes: its node, its pod's uid, its id, its pids, lowest first."""

    node: str
    pod: str
    container: str
    pids: tuple[int, ...]

    @property
    def pause(self) -> int:
        """The pid of the sandbox's process where it is a sandbox, else 0."""
        return next((pid for pid in self.pids if comm(pid) == "pause"), 0)

    @property
    def first(self) -> int:
        """The process that is the container's PID 1, 0 where it is gone."""
        return next((pid for pid in self.pids if pid_inside(pid) == 1), 0)


def boxes(cluster: Cluster) -> list[Box]:
    """Every container of the cluster in which something lives."""
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
        if alive := sorted(pid for pid in pids if start_time(pid) is not None):
            yield Box(path.relative_to(base).parts[0], pod[1], path.name, tuple(alive))


def comm(pid: int) -> str:
    """A process's name, "" where it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def parent(pid: int) -> int:
    """The pid of a process's parent, 0 where it is gone."""
    return int(_status(pid, "PPid") or 0)


def pid_inside(pid: int) -> int:
    """A process's pid in its innermost namespace, 0 where it is gone."""
    return int((_status(pid, "NSpid") or "0").split()[-1])


def _status(pid: int, field: str) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value.strip()
    return ""


def environ(pid: int) -> dict[str, str]:
    """A process's environment, {} where it is gone."""
    text = b""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/environ").read_bytes()
    pairs = (entry.partition("=") for entry in text.decode(errors="replace").split("\0") if entry)
    return {name: value for name, _, value in pairs}


def text(pid: int, path: str) -> str:
    """A file as the process sees it, "" where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/root{path}").read_text()
    return ""


def changed(pid: int, path: str) -> float | None:
    """When a file was changed last (epoch seconds), None where there is none."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/root{path}").stat().st_mtime
    return None


def sockets(pid: int) -> str:
    """/proc/net/tcp and tcp6 of the process's network namespace."""
    found = []
    for name in ("tcp", "tcp6"):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/net/{name}").read_text())
    return "\n".join(found)
