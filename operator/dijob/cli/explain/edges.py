"""Who dials whom, and how many connections that makes."""

from collections.abc import Collection
from dataclasses import dataclass

from dijob.api.model import DIJob
from dijob.cli.ports import ports_of
from dijob.core.members import Gang
from dijob.names import DIALLING, Queue
from dijob.topology import connects_to, count_connections


@dataclass(frozen=True)
class Edges:
    """The connections between the processes of a job. `dialled` has, for each rank, the ranks that
    it dials. `to_server` are those to a Redis server, with which no process dials another one.
    """

    dialled: tuple[tuple[int, ...], ...]
    between_pods: int
    within_pods: int
    to_server: int

    @property
    def total(self) -> int:
        """All connections."""
        return self.between_pods + self.within_pods + self.to_server


def edges_of(gang: Gang, without_peers: Collection[int] = ()) -> Edges:
    """The edges of DI-engine's processes, each of which dials all processes of a dialled pod.

    The ranks `without_peers` neither dial nor answer: DI-engine knows no peers there.
    """
    if gang.queue not in DIALLING:
        return Edges(((),) * gang.size, 0, 0, (gang.size - len(without_peers)) * gang.workers)
    ranks = set(range(gang.size)).difference(without_peers)
    dialled = tuple(
        tuple(sorted(ranks.intersection(connects_to(gang.topology, rank)))) if rank in ranks else ()
        for rank in range(gang.size)
    )
    number = count_connections(gang.topology, ranks, gang.workers)
    return Edges(dialled, number.between_pods, number.within_pods, 0)


def listens_on(job: DIJob, rank: int) -> range | None:
    """The ports on which DI-engine's processes of a rank listen; None where they do not listen."""
    dials = job.queue != Queue.REDIS and job.queue in DIALLING
    return ports_of(job, rank) if dials else None
