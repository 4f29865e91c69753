"""The address list in force: which epoch it is, whether it still tells the truth, and if not, why."""

from dataclasses import dataclass, replace
from functools import cached_property

from dijob.core.members import Gang, expand
from dijob.core.observe import Observed, Pod
from dijob.spec.status import Status

# Stands in a new list for a rank that has succeeded: its own address may be another job's by now, or nobody's, which
# NNG gives up on without a word and hangs. A refused connection it tries again for ever, and no DI-engine process
# listens here: they listen on the pod's own address (ding/entry/cli_parsers/k8s_parser.py).
NOBODY = "127.0.0.2"


@dataclass(frozen=True)
class Loss:
    """Why an address list has died: a reason for programs, a sentence for people, and the ranks to make anew."""

    reason: str
    message: str
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class World:
    """The job's pods against the list that they were given.

    `epoch` is the number of the newest list (0: none yet): the larger of the status and what the pods say, or an
    operator killed between the two would use a number twice. While it is `dead`, `renewing` are the ranks that are made
    anew: those that were lost, and those that dial them. NNG never finds a peer under another address (design 6.1); all
    others run on, and are given the next list too. `together`: whoever is lost, all are renewed.
    """

    gang: Gang
    pods: dict[int, Pod]
    succeeded: frozenset[int]
    epoch: int
    dead: bool
    renewing: frozenset[int] = frozenset()
    together: bool = False

    @staticmethod
    def of(
        gang: Gang, observed: Observed, succeeded: frozenset[int], status: Status, together: bool = False
    ) -> "World":
        epoch = max([status.epoch, *(pod.epoch for pod in observed.pods.values())])
        last = status.last_renewal
        if last is None or last.epoch < epoch:
            return World(gang, dict(observed.pods), succeeded, epoch, False, together=together)
        renewing = expand(last.ranks) or frozenset(range(gang.size))
        return World(gang, dict(observed.pods), succeeded, epoch, True, renewing, together)

    @property
    def alive(self) -> bool:
        """Whether an address list is in force."""
        return self.epoch > 0 and not self.dead

    @cached_property
    def listed(self) -> str:
        """The newest list, as any pod that was given it has it; "" when no such pod is left."""
        return next((p.ips for p in self.pods.values() if p.epoch == self.epoch and p.ips), "")

    @cached_property
    def ips(self) -> tuple[str, ...]:
        """The newest list, address by address."""
        return tuple(self.listed.split(",")) if self.listed else ()

    @cached_property
    def waiting(self) -> tuple[int, ...]:
        """The ranks that still have to run or are running, in order."""
        return tuple(rank for rank in range(self.gang.size) if rank not in self.succeeded)

    @cached_property
    def moved(self) -> frozenset[int]:
        """The ranks whose pod has another address than its list says: its sandbox was made anew under it."""
        return frozenset(rank for rank, pod in self.pods.items() if rank not in self.doomed and self._moved(pod, rank))

    @cached_property
    def doomed(self) -> frozenset[int]:
        """The ranks whose pod has a list that has died for them: it goes, whatever happens in it."""
        going = (rank for rank in self.pods if rank in self.renewing or rank >= self.gang.size)
        return frozenset(rank for rank in going if self.dead and self.pods[rank].ips)

    @cached_property
    def survivors(self) -> tuple[int, ...]:
        """The ranks that run, or may run, on a list that is true for all that they dial."""
        going = (rank for rank in self.waiting if rank not in self.renewing)
        return tuple(rank for rank in going if (pod := self.pods.get(rank)) and pod.ips)

    @cached_property
    def loss(self) -> Loss | None:
        """What has become untrue for ranks that are not being renewed yet, None while all of it holds."""
        if not (self.alive or self.survivors) or not self.waiting:
            return None
        everybody = frozenset(self.waiting)
        sizes = {self.pods[rank].num_nodes for rank in self.survivors} - {0}
        if self.alive and self.ips:
            sizes.add(len(self.ips))
        if sizes - {self.gang.size}:
            was = ", ".join(str(size) for size in sorted(sizes - {self.gang.size}))
            return Loss("Scaled", f"replicas changed from {was} to {self.gang.size}", everybody)
        lost = {rank: loss for rank in self.waiting if rank not in self.renewing and (loss := self._loss(rank))}
        if lost:
            gone = frozenset(lost).union(*(self.gang.dialers(rank) for rank in lost))
            return replace(lost[min(lost)], ranks=everybody if self.together else (gone | self.renewing) & everybody)
        if self.alive and not self.ips:
            message = f"no pod is left that was given the addresses of epoch {self.epoch}"
            return Loss("ListLost", message, everybody)
        return None

    @cached_property
    def unpublished(self) -> tuple[Pod, ...]:
        """The pods that have not been given the list in force (an operator can be killed half way)."""
        return tuple(
            pod
            for rank in self.waiting
            if (pod := self.pods.get(rank)) and (pod.epoch, pod.ips) != (self.epoch, self.listed)
        )

    @cached_property
    def stale(self) -> tuple[Pod, ...]:
        """While no list is in force: the pods that cannot become part of the next one."""
        return tuple(pod for rank, pod in sorted(self.pods.items()) if self._stale(rank, pod))

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ranks that have no pod at all."""
        return tuple(rank for rank in self.waiting if rank not in self.pods)

    @cached_property
    def addressless(self) -> tuple[int, ...]:
        """The ranks that keep the next list from being complete."""
        return tuple(rank for rank in self.waiting if not self._usable(rank))

    def next_list(self) -> str:
        """The next list, comma-separated in rank order; every rank that has not succeeded must have an address."""
        ranks = range(self.gang.size)
        return ",".join(NOBODY if rank in self.succeeded else self.pods[rank].ip for rank in ranks)

    def _loss(self, rank: int) -> Loss | None:
        pod = self.pods.get(rank)
        if pod is None:
            return Loss("PodLost", f"rank {rank}: its pod is gone")
        if self.dead and not pod.ips:
            return None  # it waits at the gate for the next list: nobody knows it yet
        if pod.deleting:
            return Loss("PodDeleted", f"rank {rank}: pod {pod.name} is being deleted")
        if pod.failed:
            return Loss("PodFailed", f"rank {rank}: pod {pod.name} failed ({pod.complaint or 'no reason given'})")
        if not pod.sandbox:
            # Its new address may never be told: kubelets of 1.34 report nothing about a pod whose init container runs
            # again after it had succeeded, and the gate, which runs again, waits for the list that this would bring.
            return Loss("SandboxLost", f"rank {rank}: the sandbox of pod {pod.name} died, and its address with it")
        if self._moved(pod, rank):
            was = self._told(pod)[rank]
            return Loss("AddressChanged", f"rank {rank}: pod {pod.name} moved from {was} to {pod.ip}")
        return None

    def _stale(self, rank: int, pod: Pod) -> bool:
        if pod.deleting or rank in self.succeeded:
            return False
        other_size = pod.num_nodes not in (0, self.gang.size)
        return rank in self.doomed or pod.failed or rank >= self.gang.size or other_size

    def _usable(self, rank: int) -> bool:
        pod = self.pods.get(rank)
        return pod is not None and bool(pod.ip) and not pod.deleting and not self._stale(rank, pod)

    def _told(self, pod: Pod) -> list[str]:
        """The list that the pod was given, or is about to be."""
        ips = pod.ips or (self.listed if self.alive else "")
        return ips.split(",") if ips else []

    def _moved(self, pod: Pod, rank: int) -> bool:
        told = self._told(pod)
        return rank < len(told) and pod.ip not in ("", told[rank])
