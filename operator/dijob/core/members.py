"""The gang: the pods that the spec asks for, with their ranks, names and node ids.

All names are computed from the job. So two operators, or one operator before and after a crash,
create the same objects, and the API server rejects duplicates.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from dijob.api.model import DIJob
from dijob.api.numbers import parse_natural
from dijob.names import (
    DIALLING,
    MAX_REPLICAS,
    Addressing,
    Queue,
    RestartScope,
    Runtime,
    TaskType,
    Topology,
)
from dijob.topology import connected_from


@dataclass(frozen=True)
class GangTask:
    """One task: `size` ranks, starting with rank `first`.

    `own_runtime` is the runtime of the task if the task is a separate world, else None.
    """

    name: str
    type: TaskType
    first: int
    size: int
    own_runtime: Runtime | None = None


@dataclass(frozen=True)
class Gang:
    """The pods that a job's spec asks for, and what they have in common.

    `size` is the desired number of pods, `workers` the number of processes in each. `minimum` is
    the number of pods that are required for a start, from 1 to `size`. `tasks` are the tasks in
    rank order; () if the job has none. `scope` says which ranks restart when one is lost. `gpus` is
    the number of GPUs of each pod. `queue` is DI-engine's --mq-type, and `redis` the host and port
    of the Redis server, if they are known. `server` is the name that the pod and the Service of the
    job's own Redis server share; "" if the operator runs none.
    """

    job: str
    namespace: str
    uid: str
    size: int
    workers: int
    topology: Topology
    minimum: int
    addressing: Addressing = Addressing.IP
    tasks: tuple[GangTask, ...] = ()
    runtime: Runtime = Runtime.DITASK
    scope: RestartScope = RestartScope.POD
    gpus: int = 0
    queue: str = Queue.NNG
    redis: tuple[str, int] | None = None
    server: str = ""

    def dialers(self, rank: int) -> frozenset[int]:
        """Return the ranks that connect to this rank by its address (DI-engine 0.5.3,
        k8s_parser.py). In a mesh, each rank connects to all lower ranks; in a star, all ranks
        connect to rank 0. The result is transitive: it includes the ranks that connect to those
        ranks, and so on.

        The result is empty with `addressing: Hostname`, because a name stays valid
        (docs/decisions/010). It is also empty with redis, because ranks then connect only to the
        server.
        """
        if self.addressing is Addressing.HOSTNAME or self.queue not in DIALLING:
            return frozenset()
        return frozenset(connected_from(self.topology, rank, self.size))

    @property
    def renews_all_on_loss(self) -> bool:
        """Whether all ranks restart when one is lost."""
        return self.scope is RestartScope.JOB

    @property
    def has_gang_restart(self) -> bool:
        """Whether the job needs a gang restart: no rank can start without all others, including
        those that have succeeded.
        """
        return self.renews_all_on_loss and self.runtime.traits.fixed_membership

    @cached_property
    def groups(self) -> tuple[range, ...]:
        """The ranks of each group. No rank of a group can start without the others, so all of them
        restart when one has to. With gang restart, all ranks are one group. Otherwise each task
        with its own runtime is a group. The ranges include ranks beyond the desired size.
        """
        if self.has_gang_restart:
            return (range(MAX_REPLICAS),)
        return tuple(
            range(task.first, MAX_REPLICAS if task is self._last else task.first + task.size)
            for task in self.tasks
            if task.own_runtime is not None and task.own_runtime.traits.fixed_membership
        )

    def runtime_of(self, rank: int) -> Runtime:
        """Return the runtime whose variables the rank gets."""
        task = self.member(rank).task
        return (task.own_runtime if task else None) or self.runtime

    @property
    def members(self) -> tuple["GangMember", ...]:
        """The members in rank order."""
        return tuple(map(self.member, range(self.size)))

    def address(self, rank: int, ip: str) -> str:
        """Return the entry of a rank in peer lists: its IP, or its name in the headless Service.
        The name resolves in the pods' namespace.
        """
        return (
            f"{self.member(rank).name}.{self.job}" if self.addressing is Addressing.HOSTNAME else ip
        )

    def member(self, rank: int) -> "GangMember":
        """Return the member of this rank. A rank beyond the desired size belongs to the last
        task, which is the only one that can be scaled.
        """
        if not self.tasks:
            return GangMember(rank, f"{self.job}-{rank}", rank)
        # The ranks of each task are consecutive. So a rank belongs to the first task whose last
        # rank is greater than or equal to it.
        ends = (task for task in self.tasks if rank < task.first + task.size)
        task = next(ends, self.tasks[-1])
        index = rank - task.first
        return GangMember(rank, f"{self.job}-{task.name}-{index}", index, task)

    def rank_of(self, name: str) -> int:
        """Return the rank of the pod with this name; -1 if no such rank would exist even in a
        larger gang.
        """
        # Larger gangs are included, because the pods of a job that was scaled down still exist for
        # a while and must be deleted.
        prefix, index = split_pod_name(name)
        if not self.tasks:
            return index if prefix == self.job else -1
        task = self._by_prefix.get(prefix)
        known = task is not None and index >= 0 and (index < task.size or task is self._last)
        return task.first + index if task and known and task.first + index < MAX_REPLICAS else -1

    @property
    def task_sizes(self) -> str:
        """The tasks and their sizes, which give the ranks their meaning, such as "learner 1
        evaluator 1 collector". The size of the last task is left out, because that task can be
        scaled. "" if there are no tasks.
        """
        sized = [f"{task.name} {task.size}" for task in self.tasks[:-1]]
        return " ".join([*sized, *(task.name for task in self.tasks[-1:])])

    @cached_property
    def _last(self) -> GangTask | None:
        return self.tasks[-1] if self.tasks else None

    @cached_property
    def _by_prefix(self) -> dict[str, GangTask]:
        return {f"{self.job}-{task.name}": task for task in self.tasks}

    def ranks_of(self, task: str) -> range:
        """Return the ranks of the task with this name."""
        found = self._by_prefix[f"{self.job}-{task}"]
        return range(found.first, found.first + found.size)


@dataclass(frozen=True)
class GangMember:
    """One pod of the gang: its rank (0 to size-1) and its name, which is also its hostname.

    `index` is the position of the pod in its task; in a job without tasks, it is the rank.
    """

    rank: int
    name: str
    index: int = 0
    task: GangTask | None = None

    @property
    def own_world(self) -> GangTask | None:
        """The member's task if that task is a separate world; None if the member belongs to the
        world of all ranks.
        """
        return self.task if self.task and self.task.own_runtime else None

    @property
    def position(self) -> int:
        """The index of the pod in the world of its runtime."""
        return self.index if self.own_world else self.rank

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels for DI-engine's match_labels: the type and the name of the member's task."""
        if self.task is None:
            return ()
        kind = "" if self.task.type is TaskType.NONE else self.task.type.value
        return tuple(dict.fromkeys(filter(None, (kind, self.task.name))))

    def node_ids(self, workers: int) -> range:
        """Return the DI-engine node ids of this pod's processes: rank * workers + i
        (k8s_parser.py).
        """
        return range(self.rank * workers, (self.rank + 1) * workers)


def gang_of(job: DIJob) -> Gang:
    """Return the gang that the job's spec asks for."""
    meta, queue = job.metadata, job.spec.message_queue
    # At most one of these hosts exists: the operator runs a server only if the job names no host.
    host = job.server or (queue.host if queue else "")
    return Gang(
        job=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        size=job.spec.desired,
        workers=job.workers,
        topology=job.topology,
        minimum=job.spec.minimum,
        addressing=job.addressing,
        tasks=tuple(
            GangTask(
                name=pod_set.name,
                type=pod_set.type,
                first=pod_set.first,
                size=pod_set.replicas,
                own_runtime=pod_set.own_runtime,
            )
            for pod_set in job.pod_sets
            if pod_set.name
        ),
        runtime=job.spec.runtime,
        scope=job.restart_scope,
        gpus=job.pod_sets[0].gpus,
        queue=job.queue,
        redis=(host, queue.port) if queue and host else None,
        server=job.server,
    )


def split_pod_name(name: str) -> tuple[str, int]:
    """Split a pod's name into its prefix and its number. The number is -1 if it is missing, too
    large, or not in canonical form (as in "x-01").
    """
    prefix, _, digits = name.rpartition("-")
    return prefix, rank if (rank := _parse_rank(digits)) >= 0 and str(rank) == digits else -1


def compact_ranks(ranks: Iterable[int]) -> str:
    """Format a set of ranks as "0-3,7"; the empty set as ""."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


# A plan parses the same text for each of up to 1,500 pods (address_list.py).
@lru_cache(maxsize=32)
def parse_ranks(text: str) -> frozenset[int]:
    """Parse "0-3,7". Invalid parts are ignored, because a status can be edited by hand."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if (begin := _parse_rank(first)) >= 0 and (end := _parse_rank(last or first)) >= 0:
            ranks.update(range(begin, end + 1))
    return frozenset(ranks)


def _parse_rank(text: str) -> int:
    """Parse a rank from a string of digits. Return -1 for a number that is too large for a rank
    (MAX_REPLICAS or more), and for any other text.
    """
    rank = parse_natural(text)
    return rank if rank is not None and rank < MAX_REPLICAS else -1


def format_count(number: int, noun: str, plural: str = "") -> str:
    """Format a number of things: "1 failure", "2 failures"."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def format_all(number: int, noun: str) -> str:
    """Format all of some things: "the only rank", "all 3 ranks"."""
    return f"the only {noun}" if number == 1 else f"all {number} {noun}s"


def format_ranks(ranks: Iterable[int]) -> str:
    """Format ranks for a sentence: "rank 2", "ranks 0-3,7"."""
    wanted = sorted(set(ranks))
    return f"rank {wanted[0]}" if len(wanted) == 1 else f"ranks {compact_ranks(wanted)}"
