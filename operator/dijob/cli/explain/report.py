"""Builds the explanation of a job as data, which `explain -o json` prints.

Addresses, node names and the uid are placeholders, because the cluster assigns them.
"""

from collections.abc import Iterator
from typing import Any, Final

from dijob.api import bypass
from dijob.api.checks import LIST_LENGTH
from dijob.api.model import DIJob
from dijob.api.warnings import job_warnings
from dijob.cli.explain.edges import Edges, edges_of, listens_on
from dijob.cli.explain.environment import MainProcess, PodPlace, main_process
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, gang_of
from dijob.core.options import Options
from dijob.core.render import budget, quantities, redis, service
from dijob.core.render.scheduling import ENGINES, engine_of, object_name

Data = dict[str, Any]

# The longest IPv4 address, so that the sizes are upper bounds.
LONGEST_ADDRESS: Final = "255.255.255.255"


def explain_job(job: DIJob, options: Options) -> Data:
    """Return everything that can be derived from the job's file, as plain values."""
    gang = gang_of(job)
    # A program that bypasses the launcher makes no connections, whatever the spec says.
    alone = without_peers(job)
    edges = edges_of(gang, alone)
    listed = AddressList(1, ",".join(gang.address(m.rank, ip_of(m.rank)) for m in gang.members))
    places = (PodPlace(m, ip_of(m.rank), listed, f"<node of rank {m.rank}>") for m in gang.members)
    return {
        "job": {"name": gang.job, "namespace": gang.namespace},
        "world": _world_data(job, gang),
        "pods": [_pod_data(job, place, edges, options) for place in places],
        "connections": {**_connection_data(edges), "ranksWithoutPeers": list(alone)},
        "sizes": _size_limits(job, gang, options),
        "creates": _created_objects(job, options),
        "drains": _drain_limits(job),
        "requests": _format_amounts(
            quantities.add_amounts(map(quantities.pod_requests, pod_specs(job, options)))
        ),
        "ends": _completion_data(job),
        "warnings": [{"field": one.field, "message": one.message} for one in job_warnings(job)],
    }


def ip_of(rank: int) -> str:
    """Return the placeholder for a rank's address."""
    return f"<IP of rank {rank}>"


def without_peers(job: DIJob) -> tuple[int, ...]:
    """Return the ranks whose programs bypass the launcher, so that DI-engine does not know their
    peers.
    """
    return tuple(
        rank
        for pod_set in job.pod_sets
        if bypass.bypass_problem(pod_set, job)
        for rank in range(pod_set.first, pod_set.first + pod_set.replicas)
    )


def _world_data(job: DIJob, gang: Gang) -> Data:
    return {
        "pods": gang.size,
        "minimum": gang.minimum,
        "maximum": job.spec.maximum,
        "parallelWorkers": gang.workers,
        "parallelWorkersAssumed": job.workers_assumed,
        "size": gang.size * gang.workers,
        "topology": gang.topology.value,
        "runtime": gang.runtime.value,
        "taskRuntimes": {
            task.name: task.own_runtime.value for task in gang.tasks if task.own_runtime
        },
        "messageQueue": str(gang.queue),
        "addressing": gang.addressing.value,
        "restartScope": gang.scope.value,
    }


def _pod_data(job: DIJob, place: PodPlace, edges: Edges, options: Options) -> Data:
    member = place.member
    main = main_process(job, place, options)
    joins = bypass.bypass_problem(job.pod_set_of(member.rank), job) is None
    ports = listens_on(job, member.rank) if joins else None
    return {
        "rank": member.rank,
        "name": member.name,
        "task": member.task.name if member.task else "",
        "nodeIds": list(member.node_ids(job.workers)),
        "dials": list(edges.dialled[member.rank]),
        "address": place.addresses.addresses[member.rank],
        "ports": list(ports) if ports is not None else [],
        "image": str(job.pod_set_of(member.rank).main_container.get("image", "")),
        "command": list(main.command),
        "requests": _format_amounts(quantities.pod_requests(main.pod["spec"])),
        "environment": {one.name: one.shown for one in main.public},
    }


def _connection_data(edges: Edges) -> Data:
    return {
        "total": edges.total,
        "betweenPods": edges.between_pods,
        "withinPods": edges.within_pods,
        "toRedis": edges.to_server,
    }


def _size_limits(job: DIJob, gang: Gang, options: Options) -> Data:
    """Return upper bounds for the sizes of the peer list and of a pod's environment.

    They are computed for the last rank and the longest addresses.
    """
    text = ",".join(gang.address(member.rank, LONGEST_ADDRESS) for member in gang.members)
    last = PodPlace(gang.member(gang.size - 1), LONGEST_ADDRESS, AddressList(1, text))
    return {
        "addressListBytes": len(text),
        "addressListLimit": LIST_LENGTH,
        "environmentBytes": _environment_bytes(main_process(job, last, options)),
    }


def _environment_bytes(process: MainProcess) -> int:
    """Return the size of the environment as the kernel counts it for its limit.

    Each variable counts as NAME=VALUE and a NUL byte.
    """
    return sum(len(f"{one.name}={one.shown}".encode()) + 1 for one in process.variables)


def engine_object(job: DIJob, options: Options) -> Data | None:
    """Return the engine's object for the job, such as a PodGroup; None if there is none."""
    row = ENGINES[engine_of(job, options.engine, ())]
    count = job.spec.gang_minimum
    return row.manifest(job, object_name(job), count, options) if row.kind else None


def _drain_limits(job: DIJob) -> list[Data]:
    """For each budget, return the number of ranks that node drains may stop at the same time."""
    return [
        {"budget": one.name, "task": one.task, "maxUnavailable": one.most}
        for one in budget.wanted_budgets(job)
    ]


def budget_objects(job: DIJob) -> tuple[Data, ...]:
    """Return the PodDisruptionBudgets that a job has while all of its ranks are running."""
    gang = gang_of(job)
    return tuple(
        budget.budget_manifest(
            job,
            one.task,
            max(0, (len(gang.ranks_of(one.task)) if one.task else gang.size) - one.most),
        )
        for one in budget.wanted_budgets(job)
    )


def _created_objects(job: DIJob, options: Options) -> list[Data]:
    gang = gang_of(job)
    of_engine = engine_object(job, options)
    shared = [
        *([of_engine] if of_engine else ()),
        *(service.headless_manifests(job, options) if job.wants_service else ()),
        *(redis.server_manifests(job, options) if job.server else ()),
        *budget_objects(job),
    ]
    ranks = [{"kind": "Pod", "name": member.name, "rank": True} for member in gang.members]
    others = ({"kind": one["kind"], "name": one["metadata"]["name"]} for one in shared)
    return [*ranks, *({**one, "rank": False} for one in others)]


def sample_pods(job: DIJob, options: Options) -> Iterator[tuple[str, Data]]:
    """Yield the name and manifest of the first pod of each pod set; all pods of a set are alike."""
    gang = gang_of(job)
    # Addresses do not affect a pod's requests or its validity.
    addresses = AddressList(1, ",".join("-" for _ in gang.members))
    for pod_set in job.pod_sets:
        member = gang.member(pod_set.first)
        yield member.name, main_process(job, PodPlace(member, "-", addresses), options).pod


def pod_specs(job: DIJob, options: Options) -> Iterator[Data]:
    """Yield the spec of every pod of the job, including that of its Redis server."""
    for pod_set, (_, pod) in zip(job.pod_sets, sample_pods(job, options), strict=True):
        yield from [pod["spec"]] * pod_set.replicas
    yield from server_specs(job, options)


def server_specs(job: DIJob, options: Options) -> Iterator[Data]:
    """Yield the spec of the job's Redis server, which also needs a node and quota."""
    if job.server:
        yield redis.server_manifests(job, options)[-1]["spec"]


def created_kinds(job: DIJob, options: Options) -> list[str]:
    """Return the kind of each object that the operator creates for the job, except rank pods. If a
    kind has several objects, it occurs once for each object.
    """
    return [one["kind"] for one in _created_objects(job, options) if not one["rank"]]


def _format_amounts(amounts: quantities.Amounts) -> dict[str, str]:
    return {name: quantities.format_amount(name, value) for name, value in sorted(amounts.items())}


def _completion_data(job: DIJob) -> Data:
    spec = job.spec
    # Only fields with an effect are shown, so unset ones are left out.
    found = {
        "successPolicy": spec.success_policy,
        "backoffLimit": spec.backoff_limit,
        "cleanPodPolicy": spec.clean_pod_policy.value,
        "startupDeadlineSeconds": spec.startup_deadline_seconds,
        "activeDeadlineSeconds": spec.active_deadline_seconds,
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished,
    }
    return {name: value for name, value in found.items() if value is not None}
