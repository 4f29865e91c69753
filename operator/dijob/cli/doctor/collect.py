"""Collects the evidence from the API server and from the pods.

Every request uses the user's permissions. A request that is forbidden is recorded and does not end
the command, because the other checks are still useful.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from dijob.api.status import parse_time
from dijob.cli.doctor import probe
from dijob.cli.doctor.evidence import Evidence, Objects
from dijob.cli.doctor.extension import Collect
from dijob.cli.doctor.of_status import is_problem
from dijob.cli.errors import CliError
from dijob.cli.probing import ask_ranks
from dijob.cli.queues import engine_of_pods, find_queue
from dijob.cli.topology import looking
from dijob.cli.topology.compare import Report
from dijob.cli.topology.expected import SERVER, ExpectedWorld, world_of
from dijob.client import (
    ApiError,
    AsyncClient,
    Job,
    LogOptions,
    NotFound,
    RankPod,
    Refused,
    Unreachable,
    logs,
)
from dijob.client.connection import ClientRequest, Json
from dijob.core.members import gang_of
from dijob.names import CLAIM, MANAGER, Addressing

# A healthy operator updates the status within a second or two.
_SETTLE_SECONDS: Final = 5.0
_LOG_SECONDS: Final = 20.0
# Many users lack permission to list these objects. Without one of these lists, the diagnosis still
# works, but one of its checks or remedies is less precise.
_LISTS: Final = {
    "policies": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "budgets": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "quotas": "/api/v1/namespaces/{}/resourcequotas",
}


async def collect_evidence(
    client: AsyncClient, name: str, extensions: Sequence[Collect] = ()
) -> Evidence:
    """Collect everything that the user has permission to read about a job, and the findings of
    extensions.

    Raises NotFound if the job does not exist.
    """
    found, refused = await _read_lists(client)
    job, pods, claim, unserved = await _read_state(client, name, refused)
    known = Evidence(
        job,
        pods,
        policies=found["policies"],
        quotas=found["quotas"],
        budgets=found["budgets"],
        refused=refused,
        now=datetime.now(UTC),
        unserved=unserved,
        claim=claim,
    )
    if known.model and not job.finished:
        engine = engine_of_pods(known.model, pods)
        known = replace(known, queue=await find_queue(client.connection, known.model, engine))
    # Extensions may list the pods' processes. Such a list must not contain the processes that the
    # probes start, so the extensions run before the probes.
    known = replace(known, added=[await collect(client, job, pods) for collect in extensions])
    if known.model is None or job.finished or not any(pod.running for pod in pods):
        return known
    world = world_of(known.model)
    report, probes, printed = await asyncio.gather(
        _read_report(client, name),
        _probe_pods(client, pods, job, world),
        _last_printed(client, pods, refused),
    )
    # A rank may have ended during its probe. Its current state then explains why it did not answer.
    pods = await client.pods(job)
    return replace(known, pods=pods, probes=probes, report=report, printed=printed)


async def _read_state(
    client: AsyncClient, name: str, refused: dict[str, str]
) -> tuple[Job, Sequence[RankPod], Json | None, bool]:
    """Return the job, its pods, the claim of its namespace, and whether no operator serves the job.

    The operator needs a moment after each change, so a stale status is read a second time.
    """
    for pause in (_SETTLE_SECONDS, 0.0):
        job = await client.get(name)
        pods = await client.pods(job)
        claim = await _read_claim(client, refused)
        if not (is_status_stale(job, pods) or left_alone(job, pods, claim)):
            return job, pods, claim, False
        await asyncio.sleep(pause)
    return job, pods, claim, True


def is_status_stale(job: Job, pods: Sequence[RankPod]) -> bool:
    """Whether the status does not match the current spec and pods."""
    # If another controller manages the job, the status describes objects in another cluster.
    if job.finished or job.manager:
        return False
    if not job.status.phase or job.status.observed_generation < job.metadata.generation:
        return True
    # If there are fewer pods than Ready ranks, the operator has not yet noticed that pods are gone.
    current = sum(not pod.meta.get("deletionTimestamp") for pod in pods)
    return job.is_true("Running") and current < job.status.ready_replicas


def left_alone(job: Job, pods: Sequence[RankPod], claim: Json | None) -> bool:
    """Whether a problem of the job may persist because of a claim on the namespace.

    The release that serves the namespace writes both the claim and the status. So there are two
    cases in which the claim may be the reason. Either no operator has written the status since the
    claim was created, or a client other than an operator wrote the claim. While the job has no
    problem, a claim is not a finding.
    """
    if claim is None or job.finished or job.manager:
        return False
    current = sum(not pod.meta.get("deletionTimestamp") for pod in pods)
    missing = not job.is_true("Suspended") and current < job.status.desired
    if not missing and not any(is_problem(one) for one in job.status.conditions):
        return False
    writes = [parse_time(one.get("time")) for one in _status_writes(job)]
    made = parse_time(claim["metadata"].get("creationTimestamp"))
    unserved = made is not None and bool(writes) and all(one and one < made for one in writes)
    return unserved or _written_by_hand(claim)


def _status_writes(job: Job) -> list[Json]:
    """Return the managedFields entries of the operator's status writes."""
    return [
        one
        for one in job.body["metadata"].get("managedFields") or ()
        if (one.get("manager"), one.get("subresource")) == (MANAGER, "status")
    ]


def _written_by_hand(claim: Json) -> bool:
    """Whether a claim's holder was set by a client that is not an operator."""
    writers = {
        one.get("manager")
        for one in claim["metadata"].get("managedFields") or ()
        if "f:holderIdentity" in ((one.get("fieldsV1") or {}).get("f:spec") or {})
    }
    return bool(writers) and MANAGER not in writers


async def _read_claim(client: AsyncClient, refused: dict[str, str]) -> Json | None:
    """Return the Lease with which a release claims the namespace; None if there is none."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{client.namespace}/leases/{CLAIM}"
    try:
        return await client.connection.json(ClientRequest("GET", path))
    except NotFound:
        return None
    except Refused as error:
        refused["claim"] = str(error)
        return None


async def _last_printed(
    client: AsyncClient, pods: Sequence[RankPod], refused: dict[str, str]
) -> Mapping[int, datetime] | None:
    """Return the time of each running rank's last line. For a rank without output, this is its
    start time.
    """

    async def one(pod: RankPod) -> tuple[int, datetime | None]:
        # If a program has not printed anything, its start time is used.
        last = pod.begun
        async with slots:
            async for line in logs.read_pod_log(client.connection, pod, LogOptions(tail=1)):
                last = datetime.fromtimestamp(line.time / 1e9, UTC) if line.time else last
        return pod.rank, last

    slots = asyncio.Semaphore(16)
    try:
        async with asyncio.timeout(_LOG_SECONDS):
            found = await asyncio.gather(*(one(pod) for pod in pods if pod.running))
    except (ApiError, Unreachable, TimeoutError) as error:
        refused["logs"] = str(error) or f"the logs were not read within {_LOG_SECONDS:.0f} s"
        return None
    return {rank: last for rank, last in found if last}


async def _read_report(client: AsyncClient, name: str) -> Report | None:
    # The job can end while its evidence is being collected. Then it has no connections to report.
    try:
        return await looking.observe_connections(client, name)
    except CliError:
        return None


async def _probe_pods(
    client: AsyncClient, pods: Sequence[RankPod], job: Job, world: ExpectedWorld
) -> Mapping[int, probe.Probe]:
    """From each running pod, probe the names and addresses that the pod's rank dials."""

    async def one(pod: RankPod) -> tuple[int, probe.Probe]:
        words = probe.build_command(
            dialled_names(job, pod.rank, world), dialled_targets(job, pods, pod.rank, world)
        )
        # The container reads its clock between `begin` and `end` (see of_programs.check_clocks).
        async with slots:
            begin = time.time()
            answer = (await ask_ranks(client, [pod], words))[pod.rank]
            end = time.time()
        if answer.problem:
            return pod.rank, probe.Probe(problem=answer.problem)
        return pod.rank, probe.parse_answer(answer.text, (begin, end))

    # Each exec is a connection through the API server to a kubelet, so only a few run at a time.
    slots = asyncio.Semaphore(16)
    return dict(await asyncio.gather(*(one(pod) for pod in pods if pod.running)))


def dialled_names(job: Job, rank: int, world: ExpectedWorld) -> list[str]:
    """Return the host names that a rank must resolve."""
    gang = gang_of(job.model)
    dialled = sorted({dials.to.rank for dials in world.dials if dials.rank == rank})
    if gang.redis:
        return [gang.redis[0]]
    if gang.addressing is not Addressing.HOSTNAME:
        return []
    # A rank also resolves its own name before it starts.
    return [gang.address(other, "") for other in {*dialled, rank} if other != SERVER]


def dialled_targets(
    job: Job, pods: Sequence[RankPod], rank: int, world: ExpectedWorld
) -> list[tuple[str, int]]:
    """Return the addresses and ports that a rank dials in other pods or on the Redis server."""
    gang = gang_of(job.model)
    ips = {pod.rank: pod.ip for pod in pods if pod.ip}
    found = list[tuple[str, int]]()
    for dials in world.dials:
        # A connection within the pod does not use the network between pods.
        if dials.rank != rank or dials.to.rank == rank:
            continue
        if dials.to.rank == SERVER:
            found += [gang.redis] if gang.redis else []
        elif dials.to.rank in ips:
            found.append((ips[dials.to.rank], dials.to.port))
    # Several processes of a rank may dial the same port. One attempt is enough.
    return list(dict.fromkeys(found))


async def _read_lists(client: AsyncClient) -> tuple[dict[str, Objects | None], dict[str, str]]:
    """Return the lists that the user has permission to read, and the API errors for the other
    lists.
    """
    found, refused = dict[str, Objects | None](), dict[str, str]()
    for key, path in _LISTS.items():
        try:
            call = ClientRequest("GET", path.format(client.namespace))
            found[key] = (await client.connection.json(call))["items"]
        except Refused as error:
            found[key], refused[key] = None, str(error)
    return found, refused
