"""Identities of pods and their runs, to check which pods were restarted."""

import re
from collections.abc import Iterable
from typing import Any

from jobs import peers
from space import MAIN, Body, Space

# What a light peer prints when it starts.
WHOLE = re.compile(r"^started at (\S+)$.*?^complete: \d+ edges after (\S+) s$", re.M | re.S)
# uid, restarts of the main container, when it started.
Identity = tuple[str, int, str]


def identities(space: Space, job: str) -> dict[str, Identity]:
    """Return the identities of pods whose main container runs and that are not being deleted."""
    found = {}
    for pod in space.pods(job):
        statuses = pod["status"].get("containerStatuses") or []
        main: Body = next((s for s in statuses if s["name"] == MAIN), {})
        begun = (main.get("state") or {}).get("running", {}).get("startedAt")
        if begun and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["name"]] = (pod["metadata"]["uid"], main["restartCount"], begun)
    return found


def begun(space: Space, pods: Iterable[str], seconds: float = 60) -> tuple[float, float]:
    """Return when the last of these light peers started, and when the last one had all connections
    (epoch seconds).
    """
    found: dict[str, tuple[float, float]] = {}

    def problem() -> str:
        for pod in pods:
            if said := WHOLE.search(space.logs(pod)):
                found[pod] = (float(said[1]), float(said[1]) + float(said[2]))
            else:
                return f"{pod} does not say so"
        return ""

    space.until("all edges stand", problem, seconds)
    return max(start for start, _ in found.values()), max(whole for _, whole in found.values())


def kill_program(space: Space, pod: str) -> None:
    """Send SIGKILL to the process that the launcher has started, a moment after the command has
    returned: the command would end with the container.
    """
    # Read the children first: the background process becomes a child of the launcher too.
    script = "p=$(cat /proc/1/task/*/children); (sleep 0.3; kill -KILL $p) >/dev/null 2>&1 &"
    space.execute(pod, "sh", "-c", script)


def running(space: Space, **spec: Any) -> dict[str, Identity]:
    """Start a job "world" and wait until all ranks run. By default, a counted failure fails it."""
    space.apply(peers("world", "--forever", **{"backoffLimit": 0, **spec}))
    space.until_true("world", "PeersReady")
    return identities(space, "world")


def until_healed(
    space: Space, job: str, before: dict[str, Identity], renewed: set[str], number: int
) -> float:
    """Poll until exactly the named pods are new, all ranks are Ready with this revision, and the
    other pods are unchanged.
    """

    def problem() -> str:
        now = identities(space, job)
        changed = {name for name in before if now.get(name) != before[name]}
        known = space.status(job).get("listNumber")
        ready = space.condition(job, "PeersReady")
        right = (
            now.keys() == before.keys()
            and changed == renewed
            and known == number
            and ready.get("status") == "True"
        )
        return (
            ""
            if right
            else (
                f"new: {sorted(changed)}, there: {sorted(now)}, list {known},"
                f" {ready.get('message')}"
            )
        )

    return space.until(
        f"{sorted(renewed)} of {job} are renewed, the others as they were", problem, 180
    )


def until_size(space: Space, size: int, before: dict[str, Identity]) -> float:
    """Poll until `size` ranks are Ready, and check that the pods in `before` are unchanged."""

    def problem() -> str:
        now = identities(space, "world")
        touched = [name for name in before if now.get(name) != before[name]]
        assert not touched, f"touched: {touched}, {before} became {now}"
        ready = space.condition("world", "PeersReady")
        right = len(now) == len(space.pods("world")) == size and ready.get("status") == "True"
        return "" if right else f"there: {sorted(now)}; PeersReady: {ready.get('message')}"

    return space.until(f"world has {size} ranks", problem, 60)


def how(space: Space, before: dict[str, Identity]) -> dict[str, str]:
    """Return how each changed rank of "world" was restarted: in a new pod, or in place."""
    now = identities(space, "world")
    changed = [name for name in before if now[name] != before[name]]
    return {
        name: "in place" if now[name][0] == before[name][0] else "re-created" for name in changed
    }
