"""A look at a job's connections, in its pods."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.probing import Answer, ask
from dijob.cli.topology import sockets
from dijob.cli.topology.compare import Pod, Report, compare
from dijob.cli.topology.expected import World, reported_world, world_of

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, RankPod

# What is not whole at once is looked at again: pods are read one after the other, while connections
# come and go.
_LOOKS: Final = 3
_PAUSE_SECONDS: Final = 1.0


async def look(client: "AsyncClient", name: str) -> Report:
    """The connections of a job now. Raises CliError where it has none."""
    job = await client.get(name)
    world_or_error(job)
    for again in range(_LOOKS):
        if again:
            await asyncio.sleep(_PAUSE_SECONDS)
        pods = await client.pods(job)
        known = found(pods, await ask(client, pods, sockets.COMMANDS))
        report = compare(name, reported_world(job.model, workers_of(known)), known)
        if not report.missing:
            break
    return report


def world_or_error(job: "Job") -> World:
    """The connections that a job should have. Raises CliError where it has ended, or holds none."""
    from dijob.api.problems import SpecError

    if job.finished:
        raise CliError(f"{job.name} has ended ({job.phase}): it has no connections any more")
    if job.is_true("Suspended"):
        raise CliError(f"{job.name} is suspended: kubectl dijob resume {job.name} brings it back")
    try:
        return world_of(job.model)
    except SpecError as error:
        raise CliError(f"{job.name} cannot be read: {error}", Exit.REFUSED) from error


def found(pods: "Sequence[RankPod]", answers: Mapping[int, Answer]) -> list[Pod]:
    """The pods with what they have answered."""
    return [_pod(pod, answers.get(pod.rank, Answer(problem="it was not asked"))) for pod in pods]


def workers_of(pods: Sequence[Pod]) -> dict[int, int]:
    """How many processes each rank has reported."""
    return {pod.rank: pod.sockets.workers for pod in pods if pod.sockets and pod.sockets.workers}


def _pod(pod: "RankPod", answer: Answer) -> Pod:
    table, problem = None, answer.problem
    try:
        table = sockets.read(answer.text) if answer.text else None
    except (ValueError, struct.error) as error:
        # The container's programs, and so the answer, are the tenant's.
        problem = f"its answer cannot be read: {str(error)[:100]}"
    return Pod(
        rank=pod.rank,
        name=pod.name,
        addresses=frozenset(sockets.addresses(pod.body.get("status") or {})),
        sockets=table,
        problem=problem,
        task=pod.task,
        ready=pod.ready,
    )
