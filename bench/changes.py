"""What is done to jobs, and when each of them has come through it: many are created, one is scaled,
a tenth of their pods is lost.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from faults.bulk import for_all
from faults.kube import Json, Kube, dijob, jobs, pods
from measured import Shape, Starts

# Every tenth pod is lost, from this one on: not a rank 0, which every other rank dials.
FIRST_LOST, LOST_OF = 5, 10


@dataclass(frozen=True)
class Step:
    """Something that befalls so many jobs, and by which of its states a job is through it."""

    kube: Kube
    namespace: str
    jobs: int
    through: Callable[[Json], bool]

    async def take(self, starts: Starts, act: Callable[[], Coroutine[Any, Any, None]]) -> Starts:
        """Do it, and return once all jobs are through it. The act notes when it begins."""
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
    """Create the jobs, so many in a second (0: as many as the apiserver takes), and return once
    every one is Running.
    """
    starts = Starts()

    async def create(number: int) -> None:
        body = dijob(namespace, f"job{number}", shape.ranks, service="Auto", **spec)
        # What the operator would add: `kubectl scale` needs it.
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
    """Do it so many times, each at its moment, however long those before it take."""
    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, begin + number / rate - time.monotonic()))
            group.create_task(act(number))


async def scale(kube: Kube, namespace: str, job: str, replicas: int) -> Starts:
    """Scale a job that runs, and return once all ranks are there, Ready, with one list."""
    starts = Starts()

    async def act() -> None:
        starts.creates(job)
        await kube.patch(jobs(namespace, job), {"spec": {"replicas": replicas}})

    return await Step(kube, namespace, 1, _whole_again(replicas)).take(starts, act)


def lost_of(shape: Shape) -> dict[str, str]:
    """A tenth of the pods of such jobs: pod and job, by name."""
    places = (divmod(number, shape.ranks) for number in range(FIRST_LOST, shape.pods, LOST_OF))
    return {f"job{job}-{rank}": f"job{job}" for job, rank in places}


async def lose(kube: Kube, namespace: str, shape: Shape) -> Starts:
    """Lose a tenth of the pods at once, and return once all ranks of the jobs that lost one are
    there again, Ready, with one list.
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
    for pod, uid in before.items():
        found = await kube.get(pods(namespace, pod))
        if found["metadata"]["uid"] == uid or found["status"].get("phase") != "Running":
            raise AssertionError(f"{pod} is said to run again, and does not: {found}")
    return starts


def _whole_again(ranks: int) -> Callable[[Json], bool]:
    """Whether a status says that so many ranks are Ready with a list that is not the first."""

    def whole(status: Json) -> bool:
        peers = [
            each["status"] for each in status.get("conditions", ()) if each["type"] == "PeersReady"
        ]
        ready = (status.get("readyReplicas"), peers) == (ranks, ["True"])
        return ready and status.get("listNumber", 0) > 1

    return whole
