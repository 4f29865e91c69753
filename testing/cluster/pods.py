"""Finds the processes of pods on the embedded nodes, through their cgroups."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from cluster import cgroups
from cluster.errors import ClusterError


def container_pids(
    kubectl: Callable[..., str], group: str, target: tuple[str, str, str]
) -> list[int]:
    """Return the host pids of a container (namespace, pod, container), lowest first; [] if it is
    not running.
    """
    namespace, name, container = target
    pod = _pod(kubectl, namespace, name)
    status = pod.get("status", {})
    known = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    ids = {c["name"]: c.get("containerID", "").rpartition("/")[2] for c in known}
    if container not in ids:
        raise ClusterError(
            f"pod {namespace}/{name} has no container {container}; it has: {', '.join(sorted(ids))}"
        )
    if not ids[container]:
        return []
    found: set[int] = set()
    for folder in _folders(group, pod):
        found |= cgroups.pids(str((folder / ids[container]).relative_to(folder_root(folder))))
    return sorted(found)


def kill_sandbox(kubectl: Callable[..., str], group: str, target: tuple[str, str]) -> int:
    """Send SIGKILL to the pod's pause process, and return its pid."""
    namespace, name = target
    pod = _pod(kubectl, namespace, name)
    for folder in _folders(group, pod):
        for pid in cgroups.pids(str(folder.relative_to(folder_root(folder)))):
            with suppress(OSError):  # it has ended in the meantime
                if Path(f"/proc/{pid}/comm").read_text().strip() == "pause":
                    os.kill(pid, signal.SIGKILL)
                    return pid
    raise ClusterError(
        f"pod {namespace}/{name} has no sandbox process on an embedded node; is it running?"
    )


def _pod(kubectl: Callable[..., str], namespace: str, name: str) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads(kubectl("get", "pod", "-n", namespace, name, "-o", "json"))
    return pod


def folder_root(folder: Path) -> Path:
    """Return the cgroup hierarchy that contains this folder."""
    return next(top for top in cgroups.hierarchies() if folder.is_relative_to(top))


def _folders(group: str, pod: dict[str, Any]) -> list[Path]:
    """Return the pod's cgroups in one hierarchy: kubepods/[qos/]podUID below the node's cgroup."""
    uid = pod["metadata"]["uid"]
    for top in cgroups.hierarchies():
        if found := [
            p for p in (top / group.strip("/")).glob(f"*/kubepods/**/pod{uid}") if p.is_dir()
        ]:
            return found
    return []
