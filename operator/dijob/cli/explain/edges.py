"""Who dials whom, and how many connections that makes."""

from dataclasses import dataclass, replace

from dijob.api.command import listen_port
from dijob.api.model import DIJob
from dijob.core.members import Gang
from dijob.names import BASE_PORT, DIALLING, Addressing, Queue, Topology

# DI-engine 0.5.3, ding/entry/cli_parsers/slurm_parser.py: its first port under Slurm.
SLURM_PORT = 15151


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


def edges_of(gang: Gang) -> Edges:
    """The edges of DI-engine's processes, each of which dials all processes of a dialled pod."""
    size, workers = gang.size, gang.workers
    if gang.queue not in DIALLING:
        return Edges(((),) * size, 0, 0, size * workers)
    # By address or by name, the ranks dial the same.
    by_address = replace(gang, addressing=Addressing.IP)
    dialled: list[list[int]] = [[] for _ in range(size)]
    for rank in range(size):
        for dialler in by_address.dialers(rank):
            dialled[dialler].append(rank)
    pairs = sum(map(len, dialled))
    within = {
        Topology.MESH: workers * (workers - 1) // 2,
        Topology.STAR: workers - 1,
        Topology.ALONE: 0,
    }[gang.topology]
    return Edges(tuple(map(tuple, dialled)), pairs * workers * workers, size * within, 0)


def ports_of(job: DIJob, rank: int) -> range | None:
    """The ports on which DI-engine's processes of a rank listen; None where they do not listen."""
    command = job.pod_set_of(rank).command
    if job.queue == Queue.REDIS or job.queue not in DIALLING:
        return None
    first = SLURM_PORT if command.platform == "slurm" else listen_port(command) or BASE_PORT
    return range(first, first + job.workers)
