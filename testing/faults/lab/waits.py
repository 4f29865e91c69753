"""Probes and waits of the fault tests."""

import time
from collections.abc import Callable
from typing import Any

from faults.lab.kube import Json, jobs
from faults.lab.lane import Lane

# Generous, because the machine may be busy. Measured times are printed.
SOON = 20.0


async def running(lane: Lane, *names: str) -> None:
    for name in names:
        await lane.apply(name)
    for name in names:
        await lane.reaches(name, "Running", 40)


def main_restarts(pod: Json) -> int:
    """Return the restart count of a pod's main container."""
    return sum(int(status["restartCount"]) for status in pod["status"].get("containerStatuses", ()))


async def first_pod(lane: Lane, job: str, seconds: float = SOON) -> float:
    """Wait for the first pod of a job. Return how long it took."""

    async def missing() -> str:
        return "" if lane.census.of(job) else f"no pod of {job}"

    return await lane.until(f"first pod of {job}", missing, seconds)


async def renewed(lane: Lane, job: str, seconds: float = SOON) -> float:
    """Wait until a job of 4 ranks has recovered from the loss of rank 1: rank 1 runs in a new pod,
    and ranks 2 and 3 have restarted in their pods. Return how long it took.
    """

    async def missing() -> str:
        status, found = await lane.status(job), await lane.pods(job)
        starts = {pod: main_restarts(body) for pod, body in found.items()}
        again = starts == {f"{job}-0": 0, f"{job}-1": 0, f"{job}-2": 1, f"{job}-3": 1}
        ready = next(
            (c["status"] for c in status.get("conditions", ()) if c["type"] == "PeersReady"), ""
        )
        # The operator writes the number of ready ranks up to some seconds later.
        counted = (status.get("replicas"), status.get("readyReplicas")) == (4, 4)
        right = (status.get("phase"), status.get("listNumber"), ready, lane.census.of(job)) == (
            "Running",
            2,
            "True",
            5,
        )
        said = (
            f"{status.get('phase')}, list {status.get('listNumber')}, {starts},"
            f" {status.get('readyReplicas')} ready,"
            f" {lane.census.added}, {lane.census.moved}"
        )
        return "" if right and again and counted else said

    return await lane.until(f"{job} renewed", missing, seconds)


def calm(lane: Lane, seconds: float = 4.0) -> Callable[[], Any]:
    """Return a probe that succeeds when no pod has been created for a while."""
    seen = [lane.census.added.total(), time.monotonic()]

    async def missing() -> str:
        if lane.census.added.total() != seen[0]:
            seen[:] = [lane.census.added.total(), time.monotonic()]
        return "" if time.monotonic() - seen[1] >= seconds else str(lane.census.added)

    return missing


async def pods_of(lane: Lane, job: str, count: int) -> str:
    made = lane.census.of(job)
    return "" if made == count else f"{job} has {made} pods"


async def versions(lane: Lane, job: str) -> Json:
    """Return the resourceVersions of a job and of its pods."""
    body = await lane.kube.get(jobs(lane.namespace, job))
    found = {
        name: pod["metadata"]["resourceVersion"] for name, pod in (await lane.pods(job)).items()
    }
    return {**found, job: body["metadata"]["resourceVersion"]}


def ended(lane: Lane) -> Callable[[], Any]:
    """Return a probe that succeeds when the operator's process has ended."""

    async def missing() -> str:
        return "" if lane.operator.died() else "it goes on"

    return missing
