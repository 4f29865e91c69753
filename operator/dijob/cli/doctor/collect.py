"""The evidence, from the apiserver and from the pods."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from dijob.cli.doctor import probe
from dijob.cli.doctor.evidence import Evidence, Objects
from dijob.cli.errors import CliError
from dijob.cli.probing import ask
from dijob.cli.stacks.container import Wanted
from dijob.cli.stacks.take import take
from dijob.cli.topology import looking
from dijob.cli.topology.compare import Report
from dijob.cli.topology.expected import SERVER, World, world_of
from dijob.client import AsyncClient, Job, RankPod, Refused
from dijob.client.connection import Call
from dijob.core.members import gang_of
from dijob.names import Addressing

_LISTS: Final = {
    "policies": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "quotas": "/api/v1/namespaces/{}/resourcequotas",
}


async def collect(client: AsyncClient, name: str, stacks: Wanted | None = None) -> Evidence:
    """All that can be known of a job with the user's rights, and its stacks where they are wanted.
    Raises NotFound.
    """
    job = await client.get(name)
    pods, lists = await asyncio.gather(client.pods(job), _lists(client))
    found, refused = lists
    known = Evidence(
        job,
        pods,
        policies=found["policies"],
        quotas=found["quotas"],
        refused=refused,
        now=datetime.now(UTC),
    )
    if stacks:
        known = replace(known, stacks=await take(client, job, pods, stacks))
    if known.model is None or job.finished or not any(pod.running for pod in pods):
        return known
    world = world_of(known.model)
    report, probes = await asyncio.gather(_report(client, name), _probes(client, pods, job, world))
    return replace(known, probes=probes, report=report)


async def _report(client: AsyncClient, name: str) -> Report | None:
    try:
        return await looking.look(client, name)
    except CliError:
        return None


async def _probes(
    client: AsyncClient, pods: Sequence[RankPod], job: Job, world: World
) -> Mapping[int, probe.Probe]:
    """Each pod is asked for what it dials itself."""

    async def one(pod: RankPod) -> tuple[int, probe.Probe]:
        words = probe.command(names(job, pod.rank, world), targets(job, pods, pod.rank, world))
        async with slots:
            begin = time.time()
            answer = (await ask(client, [pod], words))[pod.rank]
            end = time.time()
        if answer.problem:
            return pod.rank, probe.Probe(problem=answer.problem)
        return pod.rank, probe.read(answer.text, (begin, end))

    slots = asyncio.Semaphore(16)
    return dict(await asyncio.gather(*map(one, pods)))


def names(job: Job, rank: int, world: World) -> list[str]:
    """The names that a rank has to look up."""
    gang = gang_of(job.model)
    dialled = sorted({dials.to.rank for dials in world.dials if dials.rank == rank})
    if gang.redis:
        return [gang.redis[0]]
    if gang.addressing is not Addressing.HOSTNAME:
        return []
    return [gang.address(other, "") for other in {*dialled, rank} if other != SERVER]


def targets(job: Job, pods: Sequence[RankPod], rank: int, world: World) -> list[tuple[str, int]]:
    """The addresses and ports that a rank dials in other pods, or at the Redis server."""
    gang = gang_of(job.model)
    ips = {pod.rank: pod.ip for pod in pods if pod.ip}
    found = list[tuple[str, int]]()
    for dials in world.dials:
        if dials.rank != rank or dials.to.rank == rank:
            continue
        if dials.to.rank == SERVER:
            found += [gang.redis] if gang.redis else []
        elif dials.to.rank in ips:
            found.append((ips[dials.to.rank], dials.to.port))
    return list(dict.fromkeys(found))


async def _lists(client: AsyncClient) -> tuple[dict[str, Objects | None], dict[str, str]]:
    """What may be listed; of the others, the apiserver's sentence."""
    found, refused = dict[str, Objects | None](), dict[str, str]()
    for key, path in _LISTS.items():
        try:
            call = Call("GET", path.format(client.namespace))
            found[key] = (await client.connection.json(call))["items"]
        except Refused as error:
            found[key], refused[key] = None, str(error)
    return found, refused
