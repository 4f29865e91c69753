"""Reads the connections of a job from its pods, and compares them with the expected ones."""

import asyncio
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dijob.cli.errors import CliError, Exit
from dijob.cli.probing import Answer, ask_ranks
from dijob.cli.topology import sockets
from dijob.cli.topology.compare import ProbedPod, Report, compare_connections
from dijob.cli.topology.expected import ExpectedWorld, reported_world, world_of

if TYPE_CHECKING:
    from dijob.client import AsyncClient, Job, RankPod

# The pods are not read at the same moment, and connections come and go. So a single reading can
# lack a connection that exists. If a connection is missing, the pods are read again, up to this
# many times in all. Only the connections that are absent from the last reading count as missing.
_READINGS: Final = 3
_PAUSE_SECONDS: Final = 1.0


async def observe_connections(client: "AsyncClient", name: str) -> Report:
    """Return the current connections of a job. Raises CliError if the job cannot have any."""
    job = await client.get(name)
    world_or_error(job)
    for again in range(_READINGS):
        if again:
            await asyncio.sleep(_PAUSE_SECONDS)
        pods = await client.pods(job)
        known = parse_answers(pods, await ask_ranks(client, pods, sockets.COMMANDS))
        # Each reading can also change the expected connections, because programs report the
        # number of their processes only after they have started.
        report = compare_connections(name, reported_world(job.model, workers_of(known)), known)
        if not report.missing:
            break
    return report


def world_or_error(job: "Job") -> ExpectedWorld:
    """Return the expected connections. Raises CliError if the job has ended or is suspended."""
    from dijob.api.problems import SpecError

    if job.finished:
        raise CliError(f"job {job.name} has no connections: it has ended ({job.phase})")
    if job.is_true("Suspended"):
        raise CliError(
            f"job {job.name} has no connections: it is suspended (kubectl dijob resume {job.name})"
        )
    try:
        return world_of(job.model)
    except SpecError as error:
        raise CliError(f"job {job.name} is invalid: {error}", Exit.REFUSED) from error


def parse_answers(pods: "Sequence[RankPod]", answers: Mapping[int, Answer]) -> list[ProbedPod]:
    """Return each pod with its parsed answer."""
    return [_parse_answer(pod, answers.get(pod.rank, Answer(problem="not asked"))) for pod in pods]


def workers_of(pods: Sequence[ProbedPod]) -> dict[int, int]:
    """Return the number of processes that each rank reports."""
    return {pod.rank: pod.sockets.workers for pod in pods if pod.sockets and pod.sockets.workers}


def _parse_answer(pod: "RankPod", answer: Answer) -> ProbedPod:
    table, problem = None, answer.problem
    try:
        table = sockets.parse_sockets(answer.text) if answer.text else None
    except (ValueError, struct.error) as error:
        # The container's programs belong to the tenant, so their output can be anything.
        problem = f"invalid answer: {str(error)[:100]}"
    return ProbedPod(
        rank=pod.rank,
        name=pod.name,
        addresses=frozenset(sockets.pod_addresses(pod.body.get("status") or {})),
        sockets=table,
        problem=problem,
        task=pod.task,
        ready=pod.ready,
    )
