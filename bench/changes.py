"""Changes to jobs, and the time that each job needs for them: many jobs are created, one job is
scaled, or a tenth of the pods is deleted.

Each function returns when all affected jobs have completed the change. It learns that from a watch
of the jobs rather than by polling, so that the measurement adds no load to the apiserver.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from faults.lab.bulk import for_all
from faults.lab.kube import Json, Kube, dijob, jobs, pods
from measured import Shape, Starts

# Every tenth pod is deleted, beginning with this one. None of these pods is a rank 0: every other
# rank dials rank 0, so its loss would restart the whole job.
FIRST_LOST, LOST_OF = 5, 10


@dataclass(frozen=True)
class Step:
    """A change of `jobs` jobs. `through` tells from a job's status whether it has completed the
    change.
    """

    kube: Kube
    namespace: str
    jobs: int
    through: Callable[[Json], bool]

    async def take(self, starts: Starts, act: Callable[[], Coroutine[Any, Any, None]]) -> Starts:
        """Run `act`, and return when all jobs have completed the change. `act` itself records in
        `starts` when the change of each job begins.
        """
        # The watch starts at a version from before the change, so that no event can be missed.
        version = (await self.kube.get(jobs(self.namespace)))["metadata"]["resourceVersion"]
        async with asyncio.TaskGroup() as acting:
            acting.create_task(act())
            async for event in self.kube.follow(jobs(self.namespace), version):
                body = event["object"]
                if self.through(body.get("status") or {}):
                    starts.runs(body["metadata"]["name"])
                if len(starts.ran) == self.jobs:
                    break
        return starts


async def start_jobs(
    kube: Kube, namespace: str, shape: Shape, rate: float = 0.0, **spec: Any
) -> Starts:
    """Create the jobs, and return when all of them are Running. `rate` is the number of jobs
    created per second; 0 means as many as the apiserver accepts.
    """
    starts = Starts()

    async def create(number: int) -> None:
        body = dijob(namespace, f"job{number}", shape.ranks, service="Auto", **spec)
        # Otherwise the operator would add it with a write that is not part of the measured start.
        body["spec"]["replicas"] = shape.ranks
        starts.creates(f"job{number}")
        await kube.create(jobs(namespace), body)

    async def act() -> None:
        if rate:
            await _paced(shape.jobs, rate, create)
        else:
            await for_all(range(shape.jobs), create)

    def runs(status: Json) -> bool:
        return bool(status.get("phase") == "Running")

    return await Step(kube, namespace, shape.jobs, runs).take(starts, act)


async def _paced(count: int, rate: float, act: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run `act` `count` times at a fixed rate, even if earlier calls have not returned yet."""
    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            group.create_task(act(number))


async def scale(kube: Kube, namespace: str, job: str, replicas: int) -> Starts:
    """Scale a running job, and return when all ranks are Ready with one peer list."""
    starts = Starts()

    async def act() -> None:
        starts.creates(job)
        await kube.patch(jobs(namespace, job), {"spec": {"replicas": replicas}})

    return await Step(kube, namespace, 1, _whole_again(replicas)).take(starts, act)


def lost_of(shape: Shape) -> dict[str, str]:
    """Choose a tenth of the pods of these jobs. Return the pods' names with the names of their
    jobs.
    """
    places = (divmod(number, shape.ranks) for number in range(FIRST_LOST, shape.pods, LOST_OF))
    return {f"job{job}-{rank}": f"job{job}" for job, rank in places}


async def lose(kube: Kube, namespace: str, shape: Shape) -> Starts:
    """Delete a tenth of the pods at once, and return when all ranks of the affected jobs are Ready
    again with one peer list.
    """
    lost, starts = lost_of(shape), Starts()
    before = {pod: (await kube.get(pods(namespace, pod)))["metadata"]["uid"] for pod in lost}

    async def one(pod: str) -> None:
        starts.creates(lost[pod])
        await kube.delete(pods(namespace, pod), gracePeriodSeconds=0)

    async def act() -> None:
        await for_all(lost, one)

    step = Step(kube, namespace, len(set(lost.values())), _whole_again(shape.ranks))
    await step.take(starts, act)
    # The status alone proves nothing: verify that the pods were really replaced.
    for pod, uid in before.items():
        found = await kube.get(pods(namespace, pod))
        if found["metadata"]["uid"] == uid or found["status"].get("phase") != "Running":
            raise AssertionError(f"{pod} should have been replaced and Running: {found}")
    return starts


def _whole_again(ranks: int) -> Callable[[Json], bool]:
    """Return a predicate of a status: all ranks are Ready with a later peer list than the first."""

    def whole(status: Json) -> bool:
        peers = [
            each["status"] for each in status.get("conditions", ()) if each["type"] == "PeersReady"
        ]
        ready = (status.get("readyReplicas"), peers) == (ranks, ["True"])
        return ready and status.get("listNumber", 0) > 1

    return whole
