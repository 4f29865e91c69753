"""What is compared of pods that nobody may touch, and of those that are renewed."""

import re
from collections.abc import Iterable
from typing import Any

from jobs import peers
from space import MAIN, Space

# uid, restarts of the main container, when it started.
Identity = tuple[str, int, str]


def identities(space: Space, job: str) -> dict[str, Identity]:
    """Of the job's pods whose main container runs, and that are not being deleted."""
    found = {}
    for pod in space.pods(job):
        statuses = pod["status"].get("containerStatuses") or []
        main = next((s for s in statuses if s["name"] == MAIN), {})
        begun = (main.get("state") or {}).get("running", {}).get("startedAt")
        if begun and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], main["restartCount"], begun)
    return found


def begun(space: Space, pods: Iterable[str]) -> tuple[float, float]:
    """When the last of these light peers started, and when the last of them had all its edges (epoch seconds)."""
    starts, whole = [], []
    for pod in pods:
        log = space.logs(pod)
        starts.append(float(re.findall(r"^started at (\S+)$", log, re.M)[0]))
        whole.append(starts[-1] + float(re.findall(r"^complete: \d+ edges after (\S+) s$", log, re.M)[0]))
    return max(starts), max(whole)


def running(space: Space, **spec: Any) -> dict[str, Identity]:
    """A job "world" whose ranks all run, and which no failure may cost anything unless `spec` says so."""
    space.apply(peers("world", "--forever", **{"backoffLimit": 0, **spec}))
    space.until_true("world", "PeersReady")
    return identities(space, "world")
