"""What is compared of pods that nobody may touch."""

from typing import Any

from jobs import peers
from space import Space

# uid, restarts of the main container, when it started.
Identity = tuple[str, int, str]


def identities(space: Space, job: str) -> dict[str, Identity]:
    """Of the job's pods whose main container runs, and that are not being deleted."""
    found = {}
    for pod in space.pods(job):
        statuses = pod["status"].get("containerStatuses") or []
        main = next((s for s in statuses if s["name"] == "di-container"), {})
        begun = (main.get("state") or {}).get("running", {}).get("startedAt")
        if begun and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], main["restartCount"], begun)
    return found


def running(space: Space, **spec: Any) -> dict[str, Identity]:
    """A job "world" whose ranks all run, and which no failure may cost anything unless `spec` says so."""
    space.apply(peers("world", "--forever", **{"backoffLimit": 0, **spec}))
    space.until_true("world", "PeersReady")
    return identities(space, "world")
