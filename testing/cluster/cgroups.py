"""Creates and removes the cgroup directories of a cluster's nodes in every hierarchy, and lists
their processes.
"""

import contextlib
import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS_V1 = (
    "cpu",
    "cpuacct",
    "cpuset",
    "memory",
    "devices",
    "freezer",
    "blkio",
    "pids",
    "hugetlb",
    "net_cls",
    "net_prio",
    "perf_event",
    "systemd",
    "unified",
)


def hierarchies() -> list[Path]:
    """Return the mounted hierarchies: the single root of cgroup v2, or one per controller of v1."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    found = {
        (ROOT / name).resolve()
        for name in CONTROLLERS_V1
        if (ROOT / name / "cgroup.procs").exists()
    }
    return sorted(found)


def create(path: str) -> None:
    """Create /path in every hierarchy, so that a kubelet can create its cgroups below it."""
    for top in hierarchies():
        _prepare(top)
        made = top
        for part in path.strip("/").split("/"):
            made = made / part
            made.mkdir(exist_ok=True)
            _prepare(made)


def _prepare(directory: Path) -> None:
    # With v1, these files are empty in a new directory, so no process could run in the directory.
    for name in ("cpuset.cpus", "cpuset.mems"):
        file = directory / name
        if (directory / "tasks").exists() and file.exists() and not file.read_text().strip():
            file.write_text((directory.parent / name).read_text())
    controllers = directory / "cgroup.controllers"
    if directory.is_relative_to(ROOT) and controllers.exists() and not (ROOT / "unified").exists():
        wanted = " ".join(f"+{name}" for name in controllers.read_text().split())
        with contextlib.suppress(OSError):
            (directory / "cgroup.subtree_control").write_text(wanted)


def pids(path: str) -> set[int]:
    """Return every process below /path in any hierarchy."""
    found: set[int] = set()
    for top in hierarchies():
        for directory in _tree(top / path.strip("/")):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (directory / "cgroup.procs").read_text().split())
    return found


def _tree(base: Path) -> list[Path]:
    """Return a directory and its subdirectories, parents first. Directories that disappear
    in the meantime are skipped (rglob would raise).
    """
    return [Path(directory) for directory, _, _ in os.walk(base)]


def remove(path: str) -> list[Path]:
    """Remove /path and everything below it from every hierarchy. Return the directories that could
    not be removed because they still contain processes.
    """
    kept = []
    for top in hierarchies():
        base = top / path.strip("/")
        for directory in reversed(_tree(base)):
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                kept.append(directory)
    return kept
