"""Adds the container to each pod, waits for its end, and reads what it has said."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from dijob.cli.stacks import container
from dijob.cli.stacks.container import Wanted
from dijob.cli.stacks.read import Look, read
from dijob.client import ApiError, AsyncClient, Job, RankPod, Unreachable
from dijob.client.connection import STRATEGIC, Call
from dijob.client.resources import PODS
from dijob.client.watching import watched

_AT_ONCE: Final = 16
# With a pull of the image, of 10 MB, on a slow line.
_SECONDS: Final = 120.0


def wanted(image: str = "") -> Wanted:
    """A container that no pod has had; `image` "" for the one of this version."""
    return Wanted(image or container.IMAGE, f"{container.NAME}-{secrets.token_hex(3)}")


async def take(
    client: AsyncClient, job: Job, pods: Sequence[RankPod], what: Wanted
) -> Mapping[int, Look]:
    """Where the processes of each rank stand; of a rank that cannot be looked at, why."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: RankPod) -> tuple[int, Look]:
        if not pod.running:
            return pod.rank, Look(problem=f"it does not run ({pod.state})")
        async with slots:
            try:
                return pod.rank, await _look(client, pod, what, job.metadata.uid)
            except Unreachable as error:
                return pod.rank, Look(problem=str(error))
            except ApiError as error:
                return pod.rank, Look(problem=container.refusal(error, client.namespace))

    return dict(await asyncio.gather(*map(one, pods)))


async def _look(client: AsyncClient, pod: RankPod, what: Wanted, uid: str) -> Look:
    path = PODS.path_of(client.namespace, pod.name, "ephemeralcontainers")
    body = container.patch(pod, what, uid)
    await client.connection.json(Call("PATCH", path, body, content=STRATEGIC))
    if problem := await _ended(client, pod, what):
        return Look(problem=problem)
    query = (("container", what.name),)
    path = PODS.path_of(client.namespace, pod.name, "log")
    async with client.connection.open(Call("GET", path, query=query), _SECONDS) as response:
        return read(await response.text(errors="replace"))


async def _ended(client: AsyncClient, pod: RankPod, what: Wanted) -> str:
    """Wait for its end; why that does not come, in a sentence, else ""."""
    path, last = PODS.path(client.namespace), "it has no state yet"
    one = f"metadata.name={pod.name}"
    try:
        async with (
            asyncio.timeout(_SECONDS),
            aclosing(watched(client.connection, path, fieldSelector=one)) as states,
        ):
            async for found in states:
                if pod.name not in found:
                    return "its pod was deleted meanwhile"
                now = replace(pod, body=found[pod.name])
                if problem := container.stuck(now, what):
                    return problem
                state = container.state(now, what.name)
                if "terminated" in state:
                    return ""
                last = next(iter(state), last)
    except TimeoutError:
        pass
    return f"the container {what.name} has not ended within {_SECONDS:.0f} s ({last})"
