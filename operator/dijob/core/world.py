"""The address list in force: which epoch it is, whether it still tells the truth, and if not, why."""

from dataclasses import dataclass
from functools import cached_property

from dijob.core.members import Gang
from dijob.core.observe import Observed, Pod
from dijob.spec.status import Status

# Stands in a new list for a rank that has succeeded: its own address may be another job's by now, or nobody's, which
# NNG gives up on without a word and hangs. A refused connection it tries again for ever, and no DI-engine process
# listens here: they listen on the pod's own address (ding/entry/cli_parsers/k8s_parser.py).
NOBODY = "127.0.0.2"


@dataclass(frozen=True)
class Loss:
    """Why an address list has died: a reason for programs, a sentence for people."""

    reason: str
    message: str


@dataclass(frozen=True)
class World:
    """The job's pods against the list that they were given.

    `epoch` is the number of the newest list (0: none yet): the larger of the status and what the pods say, or an
    operator killed between the two would use a number twice.
    """

    gang: Gang
    pods: dict[int, Pod]
    succeeded: frozenset[int]
    epoch: int
    dead: bool

    @staticmethod
    def of(gang: Gang, observed: Observed, succeeded: frozenset[int], status: Status) -> "World":
        epoch = max([status.epoch, *(pod.epoch for pod in observed.pods.values())])
        last = status.last_renewal
        dead = last is not None and last.epoch >= epoch
        return World(gang, dict(observed.pods), succeeded, epoch, dead)

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
        """The ranks whose pod has another address than the list says: its sandbox was made anew under it."""
        return frozenset(rank for rank, pod in self.pods.items() if self._moved(pod, rank))

    @cached_property
    def doomed(self) -> frozenset[int]:
        """The ranks whose pod still has a list that has died: it goes, whatever happens in it."""
        return frozenset(rank for rank, pod in self.pods.items() if pod.ips and not self.alive)

    @cached_property
    def loss(self) -> Loss | None:
        """What is untrue in the list in force, None while all of it holds.

        Until ranks are renewed one by one, the rule that is always right: any loss renews the whole set.
        """
        if len(self.waiting) == 0:
            return None
        if self.ips and len(self.ips) != self.gang.size:
            return Loss("Scaled", f"replicas changed from {len(self.ips)} to {self.gang.size}")
        for rank in self.waiting:
            if loss := self._loss(rank):
                return loss
        if self.alive and not self.ips:
            return Loss("ListLost", f"no pod is left that was given the addresses of epoch {self.epoch}")
        return None

    @cached_property
    def unpublished(self) -> tuple[Pod, ...]:
        """The pods that have not been given the list in force (an operator can be killed half way)."""
        return tuple(
            self.pods[rank]
            for rank in self.waiting
            if (self.pods[rank].epoch, self.pods[rank].ips) != (self.epoch, self.listed)
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
        if pod.deleting:
            return Loss("PodDeleted", f"rank {rank}: pod {pod.name} is being deleted")
        if pod.failed:
            return Loss("PodFailed", f"rank {rank}: pod {pod.name} failed ({pod.complaint or 'no reason given'})")
        if not pod.sandbox:
            # Its new address may never be told: kubelets of 1.34 report nothing about a pod whose init container runs
            # again after it had succeeded, and the gate, which runs again, waits for the list that this would bring.
            return Loss("SandboxLost", f"rank {rank}: the sandbox of pod {pod.name} died, and its address with it")
        if self._moved(pod, rank):
            was = self.ips[rank]
            return Loss("AddressChanged", f"rank {rank}: pod {pod.name} moved from {was} to {pod.ip}")
        return None

    def _moved(self, pod: Pod, rank: int) -> bool:
        return self.alive and rank < len(self.ips) and pod.ip not in ("", self.ips[rank])

    def _stale(self, rank: int, pod: Pod) -> bool:
        if pod.deleting or rank in self.succeeded:
            return False
        other_size = pod.num_nodes not in (0, self.gang.size)
        return bool(pod.ips) or pod.failed or rank >= self.gang.size or other_size

    def _usable(self, rank: int) -> bool:
        pod = self.pods.get(rank)
        return pod is not None and bool(pod.ip) and not pod.deleting and not self._stale(rank, pod)
