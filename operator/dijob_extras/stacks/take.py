"""Adds a container to each pod, waits until the container has terminated, and reads its log."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from dijob.client import ApiError, AsyncClient, Job, RankPod, Unreachable
from dijob.client.connection import STRATEGIC, ClientRequest
from dijob.client.resources import PODS
from dijob.client.watching import watch_objects

from dijob_extras.stacks import container
from dijob_extras.stacks.container import StackContainer
from dijob_extras.stacks.read import Look, parse_dump

_AT_ONCE: Final = 16
# This includes the time to pull the image (10 MB) over a slow network.
_SECONDS: Final = 120.0


def new_container(image: str = "") -> StackContainer:
    """Return a container with a new name. An `image` of "" means the image of this version."""
    return StackContainer(image or container.IMAGE, f"{container.NAME}-{secrets.token_hex(3)}")


async def take_dumps(
    client: AsyncClient, job: Job, pods: Sequence[RankPod], what: StackContainer
) -> Mapping[int, Look]:
    """Return the processes of each rank, or the problem that prevented a stack dump."""
    # A large job would otherwise start hundreds of containers at once.
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(pod: RankPod) -> tuple[int, Look]:
        if not pod.running:
            return pod.rank, Look(problem=f"not running ({pod.state})")
        async with slots:
            try:
                return pod.rank, await _dump_pod(client, pod, what, job.metadata.uid)
            except Unreachable as error:
                return pod.rank, Look(problem=str(error))
            except ApiError as error:
                return pod.rank, Look(problem=container.explain_rejection(error, client.namespace))

    return dict(await asyncio.gather(*map(one, pods)))


async def _dump_pod(client: AsyncClient, pod: RankPod, what: StackContainer, uid: str) -> Look:
    path = PODS.path_of(client.namespace, pod.name, "ephemeralcontainers")
    body = container.build_patch(pod, what, uid)
    # A strategic merge keeps the ephemeral containers of earlier calls.
    await client.connection.json(ClientRequest("PATCH", path, body, content=STRATEGIC))
    if problem := await _wait_for_end(client, pod, what):
        return Look(problem=problem)
    query = (("container", what.name),)
    path = PODS.path_of(client.namespace, pod.name, "log")
    async with client.connection.open(
        ClientRequest("GET", path, query=query), _SECONDS
    ) as response:
        return parse_dump(await response.text(errors="replace"))


async def _wait_for_end(client: AsyncClient, pod: RankPod, what: StackContainer) -> str:
    """Wait until the container has terminated. Return why it has not terminated, or "" if it
    has.
    """
    path, last = PODS.path(client.namespace), "no state yet"
    one = f"metadata.name={pod.name}"
    try:
        async with (
            asyncio.timeout(_SECONDS),
            aclosing(watch_objects(client.connection, path, fieldSelector=one)) as states,
        ):
            async for found in states:
                if pod.name not in found:
                    return "its pod was deleted"
                now = replace(pod, body=found[pod.name])
                if problem := container.explain_stuck(now, what):
                    return problem
                state = container.container_state(now, what.name)
                if "terminated" in state:
                    return ""
                last = next(iter(state), last)
    except TimeoutError:
        pass
    return f"the container {what.name} did not finish within {_SECONDS:.0f} s ({last})"
