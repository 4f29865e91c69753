"""Removes a cluster completely, whatever state it is in."""

import contextlib
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import cgroups
from cluster.errors import ClusterError
from cluster.process import kill_all, marked
from cluster.state import cgroup, interface
from cluster.waiting import until


def remove(state: Path) -> None:
    """End the processes, which also removes namespaces, mounts and interfaces. Then remove cgroups
    and files.
    """
    end_processes(state, cgroup(state))
    subprocess.run(["ip", "link", "delete", interface(state)], capture_output=True, check=False)
    until("removal of cgroups", lambda: " ".join(map(str, cgroups.remove(cgroup(state)))), 20)
    for mount in _mounts_below(state):
        subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)
    _delete(state)
    # The parent folder contains another cluster's folder, or has never existed.
    with contextlib.suppress(OSError):
        state.parent.rmdir()


def end_processes(owner: Path, group: str) -> None:
    """Send SIGKILL to all processes that were started for `owner` or are in the cgroup, until two
    searches in a row find none. During an exec, a process has no environment by which it could be
    found.
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
    # Each node has tens of thousands of image files, and each deletion waits for the file system.
    # In parallel, the deletions take less than half the time.
    with ThreadPoolExecutor(8) as pool:
        for layer in state.glob("*/var/lib/containerd/*/snapshots/*"):
            pool.submit(shutil.rmtree, layer, ignore_errors=True)
    deadline = time.monotonic() + 20
    while state.exists():  # a mount namespace may take a moment to disappear
        try:
            shutil.rmtree(state)
        except OSError as busy:
            if time.monotonic() > deadline:
                raise ClusterError(f"{state} cannot be removed: {busy}") from busy
            time.sleep(0.1)


def leftovers(state: Path) -> list[str]:
    """Return the remains of a removed cluster; [] if there are none."""
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
