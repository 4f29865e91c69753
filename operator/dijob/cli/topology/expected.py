"""Computes the connections that a job's processes should have. No I/O.

The rules are those of DI-engine 0.5.3 and torchrun, which make the connections themselves. The
operator only provides the addresses.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dijob.api.command import listen_port
from dijob.api.model import DIJob
from dijob.core.members import Gang, format_count, format_ranks, gang_of, parse_ranks
from dijob.names import BASE_PORT, DIALLING, Runtime
from dijob.topology import connected_from

# torchrun's default (core/render/runtimes/torch.py).
MASTER_PORT: Final = 29500
# This number stands for the Redis server wherever a rank's number is expected.
SERVER: Final = -1
_MASTER_PORT_OPTION: Final = re.compile(
    r"--master[_-]port[= ](\d{1,5})\b|--rdzv[_-]endpoint[= ]\S*:(\d{1,5})\b"
)


@dataclass(frozen=True)
class Listener:
    """A listening port of a worker, or of the Redis server (rank SERVER)."""

    rank: int
    worker: int
    port: int


@dataclass(frozen=True)
class Dials:
    """The workers of a rank that dial the same listener, with one connection each."""

    rank: int
    workers: tuple[int, ...]
    to: Listener


@dataclass(frozen=True)
class ExpectedWorld:
    """All connections that a job should have.

    `note` is a remark for the user, such as an assumption. With `at_least`, a pod may have more
    processes than `workers`, and only its program knows how many.
    """

    ranks: int
    workers: int
    dials: tuple[Dials, ...]
    shape: str
    note: str = ""
    at_least: bool = False

    @property
    def total(self) -> int:
        """The number of connections."""
        return sum(len(each.workers) for each in self.dials)


def world_of(job: DIJob) -> ExpectedWorld:
    """Return the connections that the spec implies, except those of ranks that have succeeded."""
    return replace(_expected_world(job), at_least=job.workers_assumed)


def reported_world(job: DIJob, reported: Mapping[int, int]) -> ExpectedWorld:
    """Return the expected connections, computed from the process counts that the ranks report.

    A number in the spec takes precedence. DI-engine needs the same number in all ranks, because it
    computes node ids from this number.
    """
    if not job.workers_assumed or not reported:
        return world_of(job)
    # If the ranks report different numbers, use the largest, so that missing connections are
    # visible.
    most = max(reported.values())
    stated = job.spec.model_copy(update={"parallel_workers": most})
    # Create a new object, because model_copy would also copy the cached values of the old spec.
    world = world_of(DIJob(metadata=job.metadata, spec=stated, status=job.status))
    if len(set(reported.values())) > 1:
        numbers = "; ".join(
            f"{format_ranks(ranks)}: {format_count(number, 'process', 'processes')}"
            for number, ranks in sorted(_by_number(reported).items())
        )
        expected = format_count(most, "process", "processes")
        note = f"{expected} expected in each rank, but found: {numbers}"
        return replace(world, note=note)
    return replace(world, at_least=len(reported) < world.ranks)


def _by_number(reported: Mapping[int, int]) -> dict[int, list[int]]:
    found = dict[int, list[int]]()
    for rank, number in reported.items():
        found.setdefault(number, []).append(rank)
    return found


def _expected_world(job: DIJob) -> ExpectedWorld:
    gang = gang_of(job)
    # Ranks that have succeeded have closed their connections.
    alive = sorted(set(range(gang.size)) - parse_ranks(job.status.succeeded_ranks))
    if gang.queue not in DIALLING:
        port = gang.redis[1] if gang.redis else 0
        to, all_workers = Listener(SERVER, 0, port), tuple(range(gang.workers))
        dials = [Dials(rank, all_workers, to) for rank in alive]
        return ExpectedWorld(gang.size, gang.workers, tuple(dials), "redis")
    # ditask makes DI-engine's connections under every runtime.
    if gang.runtime.traits.fixed_membership and not _runs_ditask(job):
        return _rendezvous_world(job, gang, alive)
    return ExpectedWorld(
        gang.size,
        gang.workers,
        tuple(_expected_dials(job, gang, alive)),
        gang.topology.value,
        note=_options_note(job),
    )


def _expected_dials(job: DIJob, gang: Gang, alive: Sequence[int]) -> list[Dials]:
    """Return DI-engine's connections. Its k8s_parser.py makes the connections between pods, and its
    parallel.py makes all others.
    """
    workers, others, found = tuple(range(gang.workers)), set(alive), list[Dials]()
    for rank in alive:
        ports = ports_of(job, rank)
        dialers = [one for one in connected_from(gang.topology, rank, gang.size) if one in others]
        for worker in workers:
            to = Listener(rank, worker, ports[worker])
            own = tuple(connected_from(gang.topology, worker, gang.workers))
            found += [Dials(rank, own, to)] if own else []
            found += [Dials(dialer, workers, to) for dialer in dialers]
    return sorted(found, key=lambda each: (each.rank, each.to.rank, each.to.worker))


def _rendezvous_world(job: DIJob, gang: Gang, alive: Sequence[int]) -> ExpectedWorld:
    """Return the connections of torchrun: one from each pod to the store on rank 0.

    Other connections exist, but their ports are chosen at run time.
    """
    if gang.runtime is not Runtime.TORCH:
        note = f"the connections between the processes of runtime {gang.runtime} are not known"
        return ExpectedWorld(gang.size, gang.workers, (), gang.runtime.value, note=note)
    to = Listener(0, 0, _master_port(job))
    dials = [Dials(rank, (0,), to) for rank in alive if rank and 0 in alive]
    note = (
        f"only connections to the store on rank 0, port {to.port}, are checked; collectives (NCCL,"
        " gloo) use ports that only torch knows"
    )
    return ExpectedWorld(gang.size, gang.workers, tuple(dials), "torch", note=note)


def _master_port(job: DIJob) -> int:
    # The port in rank 0's command takes precedence over torchrun's default.
    main = job.pod_sets[0].main_container
    words = [*(main.get("command") or ()), *(main.get("args") or ())]
    found = _MASTER_PORT_OPTION.search(" ".join(map(str, words)))
    return int(found[1] or found[2]) if found else MASTER_PORT


def _runs_ditask(job: DIJob) -> bool:
    return any(pod_set.command.runs_ditask for pod_set in job.pod_sets)


def _options_note(job: DIJob) -> str:
    # With these options, ditask ignores the peer list of the job.
    for pod_set in job.pod_sets:
        options = pod_set.command.options or {}
        given = [name for name in ("attach-to", "platform-spec", "address") if name in options]
        if given:
            option_names = ", ".join(f"--{name}" for name in given)
            return (
                f"the command sets its own connections ({option_names}), which may differ from the"
                " expected ones"
            )
    return ""


# DI-engine's first port under Slurm (DI-engine 0.5.3, ding/entry/cli_parsers/slurm_parser.py).
SLURM_PORT: Final = 15151


def ports_of(job: DIJob, rank: int) -> range:
    """Return the ports of a rank's DI-engine processes, one per process, in the processes' order.

    The ports are used only with a type of message queue in which processes dial each other.
    """
    command = job.pod_set_of(rank).command
    first = SLURM_PORT if command.platform == "slurm" else listen_port(command) or BASE_PORT
    return range(first, first + job.workers)
