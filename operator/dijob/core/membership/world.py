"""The address list in force: which epoch it is, whether it still tells the truth, and if not, why."""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from dijob.api.status import Status
from dijob.core.addresses import AddressList
from dijob.core.members import Gang, expand
from dijob.core.membership import restart
from dijob.core.membership.address_list import NOBODY, all_believed
from dijob.core.observed.derived import follows
from dijob.core.observed.views import Observed, Pod
from dijob.core.render.annotations import made_of
from dijob.names import Addressing

# The reason of the renewal that a suspension is: no pod is left that had the list.
SUSPENDED = "Suspended"


@dataclass(frozen=True)
class Loss:
    """Why an address list has died: a reason for programs, a sentence for people, and the ranks to renew."""

    reason: str
    message: str
    ranks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class World:
    """The job's pods against the list that they were given.

    `pods` are as they are believed (address_list.py). `address_list` is the newest list, without
    addresses where nothing is left that proves it; the status has its number before any pod. While it is
    `dead`, `renewing` are the ranks that are renewed: those that were lost, and those that dial them. NNG never finds a
    peer under another address (docs/decisions/006); all others run on, and are given the next list too. `together`: the
    loss of any rank renews all.

    `fresh`: no list has been made since the job began, or since it was resumed after a suspension.

    `restartable` are the ranks that can be renewed in their pods; `owed` are those that still have to be told so, and
    `pending` those that have been told, and have not started again yet; `overdue` have not in all the time they had.

    `listed_size` is how many ranks the newest list has, by the status.

    `redis_run` identifies the run of the job's own Redis server (its pod's uid and restart count), "" while there is
    none. A rank that began with another run is lost: redis-py may never notice that a connection is dead, and one that
    was begun as the server went can take TCP two minutes.

    `refused` are the ranks for whose pods there has been no room in a quota for so long that they count like ranks
    without a node (capacity.py).
    """

    gang: Gang
    pods: dict[int, Pod]
    succeeded: frozenset[int]
    address_list: AddressList
    dead: bool
    fresh: bool = False
    renewing: frozenset[int] = frozenset()
    together: bool = False
    restartable: frozenset[int] = frozenset()
    owed: frozenset[int] = frozenset()
    pending: frozenset[int] = frozenset()
    overdue: frozenset[int] = frozenset()
    redis_run: str = ""
    listed_size: int = 0
    refused: frozenset[int] = frozenset()

    @staticmethod
    def of(gang: Gang, observed: Observed, status: Status, now: datetime, together: bool = False) -> "World":
        """The world as the status and the pods show it; the status as `address_list.adopted` leaves it."""
        pods, listed = all_believed(gang, observed.pods, observed.given, status)
        last = status.last_renewal
        pending = frozenset(r for r, pod in pods.items() if restart.pending(pod, observed, status, now))
        alive = World(
            gang,
            pods,
            expand(status.succeeded_ranks),
            listed,
            dead=False,
            fresh=not listed.number,
            together=together,
            # A rendezvous must not find a process of the old world that is still ending: pods that are made anew begin
            # only when all of those are gone.
            restartable=frozenset(r for r, pod in pods.items() if not gang.runtime.rigid and restart.possible(pod, now))
            - pending,
            pending=pending,
            overdue=frozenset(r for r in pending if restart.left(pods[r], observed, now) <= 0),
            redis_run=observed.life(gang.server),
            listed_size=status.address_list.size if status.address_list else gang.size,
        )
        if last is None:
            return alive
        ranks = expand(last.ranks) or frozenset(range(gang.size))
        owing = replace(alive, owed=restart.owed(pods, ranks, last))
        if last.epoch < listed.number:
            return owing
        if last.reason == SUSPENDED:
            return replace(owing, fresh=True)
        return replace(owing, dead=True, renewing=ranks)

    @property
    def alive(self) -> bool:
        """Whether an address list is in force."""
        return self.address_list.number > 0 and not self.dead and not self.fresh

    @cached_property
    def ips(self) -> tuple[str, ...]:
        """The newest list, address by address."""
        return self.address_list.addresses

    @cached_property
    def size(self) -> int:
        """How many ranks the world has: those of the list in force; where it is dead, those that were in it and still
        are wished for; before one begins, the minimum."""
        if self.alive:
            return len(self.ips) or self.listed_size or self.gang.size
        if self.fresh:
            # Those below may have succeeded before the job was suspended: somebody is still to run.
            return max(self.gang.minimum, self.wanted[0] + 1) if self.wanted else self.gang.minimum
        return min(self.gang.size, max({*self.renewing, *self.survivors}) + 1)

    @cached_property
    def floor(self) -> int:
        """How many ranks it cannot do without. A world that runs needs no more than it has: where a job says `replicas`
        alone, minReplicas is the same number, and grows when the job is scaled."""
        return self.size if self.alive else min(self.gang.minimum, self.size)

    @cached_property
    def least(self) -> int:
        """How many ranks the next list must have: one more than the one in force, else the floor and all who run."""
        return self.size + 1 if self.alive else max(self.floor, max(self.survivors, default=-1) + 1)

    @cached_property
    def homeless(self) -> tuple[int, ...]:
        """The ranks for which the scheduler has found no node, or the apiserver no place for the pod, in order."""
        pods = ((rank, self.pods.get(rank)) for rank in self.wanted)
        none = frozenset(rank for rank, p in pods if p and not (p.scheduled or p.deleting) and p.complaint)
        return tuple(sorted(none | (self.refused & frozenset(self.missing))))

    @cached_property
    def wanted(self) -> tuple[int, ...]:
        """The ranks that are wished for and have not succeeded, in order."""
        return tuple(rank for rank in range(self.gang.size) if rank not in self.succeeded)

    @cached_property
    def waiting(self) -> tuple[int, ...]:
        """The ranks of this world that still have to run or are running, in order; others may join later."""
        return tuple(rank for rank in self.wanted if rank < self.size)

    @cached_property
    def moved(self) -> frozenset[int]:
        """The ranks whose pod has another address than its list says: its sandbox was made again."""
        return frozenset(rank for rank, pod in self.pods.items() if rank not in self.doomed and self._moved(pod))

    @cached_property
    def doomed(self) -> frozenset[int]:
        """The ranks whose pod has a list that does not hold for them any more: it will be deleted."""
        if self.fresh:  # no list has been made since it began, whatever a pod has started with
            return frozenset(rank for rank, pod in self.pods.items() if pod.copy.forged and pod.begun)
        told = (rank for rank, pod in self.pods.items() if pod.has_list)
        if self.dead:
            anew = self.renewing - self.restartable
            return frozenset(rank for rank in told if rank in anew or rank >= self.gang.size)
        return frozenset(rank for rank in told if rank >= min(self.size, self.gang.size))

    @cached_property
    def survivors(self) -> tuple[int, ...]:
        """The ranks that run, or may run, on a list that is true for all that they dial."""
        going = (rank for rank in self.wanted if rank not in self.renewing)
        return tuple(rank for rank in going if (pod := self.pods.get(rank)) and pod.has_list)

    @cached_property
    def loss(self) -> Loss | None:
        """What has become untrue for ranks that are not being renewed yet, None while all of it holds."""
        if self.idle or not self.waiting:
            return None
        everybody = frozenset(self.waiting)
        # Who was wished for later is not in the list, and so is not lost.
        known = [rank for rank in self.waiting if rank not in self.renewing and rank < (self.listed_size or self.size)]
        lost = {rank: loss for rank in known if (loss := self._loss(rank))}
        if lost:
            gone = frozenset(lost).union(*(self.gang.dialers(rank) for rank in lost))
            # Who is still to be told of the last loss has a list that is dead too.
            gone |= self.renewing | self.owed
            # Without a list that is proven, nothing that runs knows whom it dials.
            all_go = self.together or (self.alive and not self.ips)
            return replace(lost[min(lost)], ranks=everybody if all_go else gone & everybody)
        if self.alive and not self.ips:
            message = f"the pods' addresses are not those of epoch {self.address_list.number} any more"
            return Loss("ListLost", message, everybody)
        return None

    @property
    def idle(self) -> bool:
        """Whether nobody runs, or may run, on a list that holds."""
        return not (self.alive or self.survivors)

    @cached_property
    def outdated(self) -> bool:
        """Whether somebody has crashed who, when it starts again, would dial the address of a rank that has succeeded:
        nobody's by then, or another job's. (All the others have had their connection, and need no new list.)"""
        named = any(rank < len(self.ips) and self.ips[rank] != NOBODY for rank in self.succeeded)
        pods = (self.pods.get(rank) for rank in self.waiting)
        return self.alive and named and any(pod and pod.failures > 0 and not pod.ready for pod in pods)

    @cached_property
    def unpublished(self) -> tuple[Pod, ...]:
        """The pods that have not been given the list in force (an operator can be killed half way), have lost it or
        their labels to somebody's edit, or were given it while the job's Redis server was away."""
        pods = (self.pods.get(rank) for rank in self.waiting)
        return tuple(pod for pod in pods if pod and not self._told(pod))

    @cached_property
    def stale(self) -> tuple[Pod, ...]:
        """The pods that are part of no list that holds, and cannot become part of the next one."""
        return tuple(pod for rank, pod in sorted(self.pods.items()) if self._stale(rank, pod))

    @cached_property
    def missing(self) -> tuple[int, ...]:
        """The ranks that have no pod at all."""
        return tuple(rank for rank in self.wanted if rank not in self.pods)

    @cached_property
    def addressless(self) -> tuple[int, ...]:
        """The ranks that keep the next list from being complete."""
        return tuple(rank for rank in self.wanted if not self._usable(rank))

    @cached_property
    def reach(self) -> int:
        """How many ranks the next list could have now: it has no gap."""
        return self.addressless[0] if self.addressless else self.gang.size

    def next_list(self, number: int, size: int) -> AddressList:
        """The next list, under this number; `size` must be within reach."""
        return AddressList.of(number, map(self._address, range(size)))

    def _address(self, rank: int) -> str:
        return NOBODY if rank in self.succeeded else self.gang.address(rank, self.pods[rank].ip)

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
        if self._moved(pod):
            said = f"rank {rank}: pod {pod.name} moved from {self._known_as(pod)} to {pod.ip}"
            return Loss("AddressChanged", said)
        if rank in self.overdue:
            said = f"rank {rank}: pod {pod.name} was told to start its process again, and has not"
            return Loss("NotRestarted", f"{said} (its command may hold up TERM)")
        if self.redis_run and pod.copy.redis_run not in ("", self.redis_run) and rank not in self.owed:
            return Loss("BrokerLost", f"rank {rank}: the Redis server {self.gang.server} that it began with is gone")
        return None

    def _told(self, pod: Pod) -> bool:
        """Whether the pod says what we have told it."""
        copy = pod.copy
        listed = copy.address_list == self.address_list and pod.recognised and not copy.forged
        return listed and self._derived <= copy.derived and bool(copy.redis_run or not self.redis_run)

    @cached_property
    def _derived(self) -> frozenset[tuple[str, str]]:
        return follows(made_of(self.gang, self.address_list))

    def _stale(self, rank: int, pod: Pod) -> bool:
        if pod.deleting:
            return False
        if rank in self.succeeded:
            return rank >= self.gang.size and not pod.finished
        return rank in self.doomed or pod.failed or rank >= self.gang.size

    def _usable(self, rank: int) -> bool:
        pod = self.pods.get(rank)
        return pod is not None and bool(pod.ip) and not pod.deleting and not self._stale(rank, pod)

    def _known_as(self, pod: Pod) -> str:
        """The pod's IP by the newest list, if that is about this pod; "" where it is not."""
        if self.gang.addressing is Addressing.HOSTNAME:
            return pod.copy.pod_ip
        concerned = pod.has_list or pod.rank not in self.renewing
        return self.ips[pod.rank] if concerned and pod.rank < len(self.ips) else ""

    def _moved(self, pod: Pod) -> bool:
        was = self._known_as(pod)
        return "" not in (was, pod.ip) and was != pod.ip
