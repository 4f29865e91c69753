"""Computes which other ranks each rank dials, and the number of connections."""

from collections.abc import Collection
from dataclasses import dataclass

from dijob.api.model import DIJob
from dijob.cli.topology.expected import ports_of
from dijob.core.members import Gang
from dijob.names import DIALLING, Queue
from dijob.topology import connects_to, count_connections


@dataclass(frozen=True)
class Edges:
    """The connections of a job's processes.

    `dialled` contains the ranks that each rank dials. `to_server` counts the connections to a Redis
    server; with Redis, processes do not dial each other.
    """

    dialled: tuple[tuple[int, ...], ...]
    between_pods: int
    within_pods: int
    to_server: int

    @property
    def total(self) -> int:
        return self.between_pods + self.within_pods + self.to_server


def edges_of(gang: Gang, without_peers: Collection[int] = ()) -> Edges:
    """Return the connections of DI-engine's processes.

    Each process dials every process of a dialed rank. The ranks `without_peers` neither dial nor
    listen, because their DI-engine processes do not know of the job.
    """
    if gang.queue not in DIALLING:
        return Edges(((),) * gang.size, 0, 0, (gang.size - len(without_peers)) * gang.workers)
    # If two ranks are connected, DI-engine connects each process of one with each process of the
    # other. The ranks `without_peers` run without connections.
    ranks = set(range(gang.size)).difference(without_peers)
    dialled = tuple(
        tuple(sorted(ranks.intersection(connects_to(gang.topology, rank)))) if rank in ranks else ()
        for rank in range(gang.size)
    )
    number = count_connections(gang.topology, ranks, gang.workers)
    return Edges(dialled, number.between_pods, number.within_pods, 0)


def listens_on(job: DIJob, rank: int) -> range | None:
    """Return the ports of a rank's DI-engine processes; None if they do not listen."""
    dials = job.queue != Queue.REDIS and job.queue in DIALLING
    return ports_of(job, rank) if dials else None
