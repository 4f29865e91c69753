"""The gang, the pods that the spec asks for: ranks, names, node ids. Every name is computed, so
that no two writers can disagree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dijob.api.model import DIJob
from dijob.api.numbers import natural
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
    """The ranks of one task: `size` of them from `first` on."""

    name: str
    type: TaskType
    first: int
    size: int


@dataclass(frozen=True)
class Gang:
    """The pods that a job's spec asks for, as each of them has to know them.

    `size` is the number of pods that are wished for, `workers` the processes in each. `minimum` is
    the number of pods without which no world begins, from 1 to `size`. `tasks` are the tasks in
    rank order, () where the job has none. `scope` says who starts again when one
    is lost. `gpus` is the number of GPUs that each pod may use, 0 where none is asked for. `queue`
    is DI-engine's --mq-type, `redis` host and port of its server, where they are known. `server`
    names the pod and the service of the Redis server that the operator runs for this job, "" where
    it runs none.
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
        """The ranks that connect to this one by its address (DI-engine 0.5.3, k8s_parser.py): in a
        mesh each rank dials all below it, in a star all dial rank 0. The dialers of a dialer are
        among them. Empty with `addressing: Hostname`, since a name stays valid
        (docs/decisions/010), and with redis, where all dial the server alone.
        """
        if self.addressing is Addressing.HOSTNAME or self.queue not in DIALLING:
            return frozenset()
        return frozenset(connected_from(self.topology, rank, self.size))

    @property
    def renews_all_on_loss(self) -> bool:
        """Whether all ranks are renewed when one is lost."""
        return self.scope is RestartScope.JOB

    @property
    def begins_together(self) -> bool:
        """Whether no rank can begin without all others, those that have succeeded among them."""
        return self.renews_all_on_loss and self.runtime.traits.fixed_membership

    @property
    def members(self) -> tuple["Member", ...]:
        """The members in rank order."""
        return tuple(map(self.member, range(self.size)))

    def address(self, rank: int, ip: str) -> str:
        """What stands for a rank in address lists. The name is that of the headless service, in the
        pods' namespace.
        """
        return (
            f"{self.member(rank).name}.{self.job}" if self.addressing is Addressing.HOSTNAME else ip
        )

    def member(self, rank: int) -> "Member":
        """The member of this rank; one beyond the wish belongs to the last task."""
        if not self.tasks:
            return Member(rank, f"{self.job}-{rank}", rank)
        ends = (task for task in self.tasks if rank < task.first + task.size)
        task = next(ends, self.tasks[-1])
        index = rank - task.first
        return Member(rank, f"{self.job}-{task.name}-{index}", index, task)

    def rank_of(self, name: str) -> int:
        """The rank of the pod of this name; -1 where no rank of this gang, or of a larger one, has
        it.
        """
        prefix, index = split(name)
        if not self.tasks:
            return index if prefix == self.job else -1
        task = self._by_prefix.get(prefix)
        known = task is not None and index >= 0 and (index < task.size or task is self._last)
        return task.first + index if task and known and task.first + index < MAX_REPLICAS else -1

    @property
    def task_sizes(self) -> str:
        """The tasks, by which a rank's number means what it means: "learner 1 evaluator 1
        collector". The last one may have any size; "" where there are none.
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
        """The ranks of the task of this name."""
        found = self._by_prefix[f"{self.job}-{task}"]
        return range(found.first, found.first + found.size)


@dataclass(frozen=True)
class Member:
    """One pod of the gang: its rank (0 ... size-1) and its name, which is also its hostname.

    `index` counts the ranks of its task; where there are none it is the rank.
    """

    rank: int
    name: str
    index: int = 0
    task: GangTask | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """What DI-engine's match_labels can select it by: its task's type, and its name."""
        if self.task is None:
            return ()
        kind = "" if self.task.type is TaskType.NONE else self.task.type.value
        return tuple(dict.fromkeys(filter(None, (kind, self.task.name))))

    def node_ids(self, workers: int) -> range:
        """The DI-engine node ids of this pod's processes: rank * workers + i (k8s_parser.py)."""
        return range(self.rank * workers, (self.rank + 1) * workers)


def gang_of(job: DIJob) -> Gang:
    """The gang that the job's spec asks for."""
    meta, queue = job.metadata, job.spec.message_queue
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
            GangTask(pod_set.name, pod_set.type, pod_set.first, pod_set.replicas)
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


def split(name: str) -> tuple[str, int]:
    """A pod's name without its last number, and that number; -1 where it is none, not as we write
    it, or too large.
    """
    prefix, _, digits = name.rpartition("-")
    return prefix, rank if (rank := _rank(digits)) >= 0 and str(rank) == digits else -1


def compact(ranks: Iterable[int]) -> str:
    """Write a set of ranks as "0-3,7"; nothing as ""."""
    runs: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def expand(text: str) -> frozenset[int]:
    """Read "0-3,7" back; a part that is no number or range is left out (status can be edited by
    hand).
    """
    ranks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if (begin := _rank(first)) >= 0 and (end := _rank(last or first)) >= 0:
            ranks.update(range(begin, end + 1))
    return frozenset(ranks)


def _rank(text: str) -> int:
    """The rank that plain digits say; -1 where no job has one of that number: no status could be
    written about it.
    """
    rank = natural(text)
    return rank if rank is not None and rank < MAX_REPLICAS else -1


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things in a sentence: "1 failure", "2 failures"."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def say(ranks: Iterable[int]) -> str:
    """Name ranks in a sentence: "rank 2", "ranks 0-3,7"."""
    wanted = sorted(set(ranks))
    return f"rank {wanted[0]}" if len(wanted) == 1 else f"ranks {compact(wanted)}"
