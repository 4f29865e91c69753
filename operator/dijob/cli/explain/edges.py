"""Who dials whom, and how many connections that makes."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from dijob.api.model import DIJob
from dijob.cli.ports import ports_of
from dijob.core.members import Gang
from dijob.names import DIALLING, Addressing, Queue, Topology


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
    size, workers, members = gang.size, gang.workers, gang.size - len(without_peers)
    if gang.queue not in DIALLING:
        return Edges(((),) * size, 0, 0, members * workers)
    # By address or by name, the ranks dial the same.
    by_address = replace(gang, addressing=Addressing.IP)
    dialled: list[list[int]] = [[] for _ in range(size)]
    for rank in range(size):
        for dialler in by_address.dialers(rank):
            if not {rank, dialler} & set(without_peers):
                dialled[dialler].append(rank)
    pairs = sum(map(len, dialled))
    within = {
        Topology.MESH: workers * (workers - 1) // 2,
        Topology.STAR: workers - 1,
        Topology.ALONE: 0,
    }[gang.topology]
    return Edges(tuple(map(tuple, dialled)), pairs * workers * workers, members * within, 0)


def listens_on(job: DIJob, rank: int) -> range | None:
    """The ports on which DI-engine's processes of a rank listen; None where they do not listen."""
    dials = job.queue != Queue.REDIS and job.queue in DIALLING
    return ports_of(job, rank) if dials else None
