"""Removes every trace of a cluster, whatever state it or its CLI was left in."""

import contextlib
import shutil
import subprocess
import time
from pathlib import Path

from cluster import cgroups
from cluster.errors import ClusterError
from cluster.process import kill_all, marked
from cluster.state import cgroup, interface
from cluster.waiting import until


def remove(state: Path) -> None:
    """End the processes (namespaces, mounts and interfaces go with them), then cgroups and
    files.
    """
    end_processes(state, cgroup(state))
    subprocess.run(["ip", "link", "delete", interface(state)], capture_output=True, check=False)
    until("removal of cgroups", lambda: " ".join(map(str, cgroups.remove(cgroup(state)))), 20)
    for mount in _mounts_below(state):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    _delete(state)
    # Another cluster's folder is still in there, or it never was.
    with contextlib.suppress(OSError):
        state.parent.rmdir()


def end_processes(owner: Path, group: str) -> None:
    """SIGKILL to what was started for `owner` and to all in the cgroup, until two looks find none:
    a process has no environment to be known by while it becomes another program.
    """
    empty = 0

    def left() -> str:
        nonlocal empty
        pids = marked(owner) | cgroups.pids(group)
        kill_all(pids)
        empty = 0 if pids else empty + 1
        return "" if empty == 2 else f"{sorted(pids)}"

    until(f"end of the processes of {owner}", left, 30)


def _mounts_below(state: Path) -> list[str]:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return [point for point in reversed(points) if Path(point).is_relative_to(state)]


def _delete(state: Path) -> None:
    deadline = time.monotonic() + 20
    while state.exists():  # a mount namespace may take a moment to let go
        try:
            shutil.rmtree(state)
        except OSError as busy:
            if time.monotonic() > deadline:
                raise ClusterError(f"{state} cannot be removed: {busy}") from busy
            time.sleep(0.1)


def leftovers(state: Path) -> list[str]:
    """What still exists of a cluster that was removed; empty when nothing does."""
    found = [f"process {pid}" for pid in sorted(marked(state) | cgroups.pids(cgroup(state)))]
    found += [f"mount {point}" for point in _mounts_below(state)]
    found += [
        f"cgroup {path}"
        for top in cgroups.hierarchies()
        if (path := top / cgroup(state).strip("/")).exists()
    ]
    found += (
        [f"interface {interface(state)}"]
        if (Path("/sys/class/net") / interface(state)).exists()
        else []
    )
    return found + ([f"folder {state}"] if state.exists() else [])
