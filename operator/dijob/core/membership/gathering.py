"""Which ranks the next address list has, and when it is made: those from 0 on that have addresses,
without a gap, once enough of them have waited long enough for the others. A pass asks it before it
numbers a list (decide/address_writes.py), and to know which pods to create, or to release.

All sizes count ranks from 0 on: `gang.size` is the desired one, `world.size` that of the world
now, `world.possible_size` the largest that a list could have now, `required_size` the one that
the job cannot do without, `minimum_size` the smallest of a next list, `next_size` that of the
list to publish now.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dijob.core.addresses import AddressList
from dijob.core.membership import together
from dijob.core.membership.address_list import NOBODY
from dijob.core.membership.world import World
from dijob.core.observed.views import ARRIVAL, Observed, Pod, Refused, age, since

# While this operator itself is still creating pods, the window is not over.
CREATING_SECONDS = 1.0


@dataclass(frozen=True)
class Gathering:
    """The world, and the rule by which it starts and grows.

    `window` (seconds) is how long ranks with an address wait for desired ranks without one.
    `refused` are the ranks whose pods the apiserver has refused for so long, for want of room in a
    quota, that they count like ranks without a node (capacity.py).
    """

    world: World
    observed: Observed
    window: float
    now: datetime
    refused: frozenset[int] = frozenset()

    @cached_property
    def next_size(self) -> int:
        """How many ranks the list to publish now has; 0: no list is to be published."""
        world = self.world
        if world.in_force and world.gang.size < world.size:
            return world.gang.size
        if is_outdated(world):
            return world.size
        due = self._enough and self.seconds_left <= 0 and not together.is_closing(world)
        return world.possible_size if due else 0

    @cached_property
    def required_size(self) -> int:
        """How many ranks the job cannot do without. A job that runs needs no more than it has:
        where it says `replicas` alone, minReplicas is the same number, and grows when it is scaled.
        """
        world = self.world
        return world.size if world.in_force else min(world.gang.minimum, world.size)

    @cached_property
    def minimum_size(self) -> int:
        """How many ranks the next list has at least: one more than the list in force; where none is
        in force, the required size and all ranks that run.
        """
        world = self.world
        return (
            world.size + 1
            if world.in_force
            else max(self.required_size, max(world.survivors, default=-1) + 1)
        )

    def next_list(self, number: int) -> AddressList:
        """The list that is to be published now, under this number."""
        return AddressList.of(number, (_address(self.world, r) for r in range(self.next_size)))

    @cached_property
    def unschedulable(self) -> tuple[int, ...]:
        """The ranks for which the scheduler has found no node, or the apiserver no place for the
        pod, in order.
        """
        world = self.world
        pods = ((rank, world.pods.get(rank)) for rank in world.wanted)
        none = frozenset(rank for rank, pod in pods if pod and pod.seeks_node)
        return tuple(sorted(none | (self.refused & frozenset(world.missing))))

    @cached_property
    def seconds_left(self) -> float:
        """Seconds until the ranks with an address no longer wait for the others; 0 or less: they do
        not wait.
        """
        world = self.world
        complete = world.list_is_dead and world.possible_size >= world.size
        if not self._enough or complete or world.possible_size == world.gang.size:
            return 0.0
        if world.list_is_dead:
            # A member that finds no node; one that was refused its pod has been waited for.
            pod = world.pods.get(world.possible_size)
            waited = age(pod, self.now) if pod else self.window
        else:
            arrived = (
                world.pods[rank] for rank in range(self.minimum_size) if rank not in world.succeeded
            )
            waited = min((_waited(self, pod) for pod in arrived), default=self.window)
        return max(self.window - waited, CREATING_SECONDS if _is_creating(self) else 0.0)

    @cached_property
    def pod_to_release(self) -> Pod | None:
        """The pod of the highest rank that has a node and no list while a lower rank finds no node:
        it is deleted, so that the lower one can have its place. None where there is no such pod.

        Ranks below the required size stay (capacity.py is about them).
        """
        world = self.world
        present = {rank: pod for rank in world.wanted if (pod := world.pods.get(rank))}
        if not self.unschedulable or any(
            pod.deleting for rank, pod in present.items() if rank > self.unschedulable[0]
        ):
            return None
        first = max(self.required_size, self.unschedulable[0] + 1)
        waiting = [
            rank
            for rank, pod in present.items()
            if rank >= first and pod.scheduled and not pod.has_list
        ]
        return present[max(waiting)] if waiting else None

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """The ranks of this world that have no pod: all are created at once."""
        return tuple(rank for rank in self.world.missing if rank < self.world.size)

    @cached_property
    def ranks_to_add(self) -> tuple[int, ...]:
        """The ranks whose pods are created one after the other, once all of this world have pods.

        In rank order, so that a scheduler with room for some finds the lowest first. All of them,
        even those without a node, since a cluster autoscaler must see them; a rank whose pod was
        released for a lower one comes back only when that one has a node.
        """
        world, released = self.world, self.observed.room.released
        if self.needed:
            return ()
        ranks = []
        for rank in world.missing:
            if (
                self.unschedulable
                and self.unschedulable[0] < rank
                and world.gang.member(rank).name in released
            ):
                break
            ranks.append(rank)
        return tuple(ranks)

    @cached_property
    def _enough(self) -> bool:
        """Whether the ranks that have addresses are enough for a list.

        A rank of the old list is waited for, unless the scheduler says that there is no node for
        it.
        """
        world = self.world
        if world.possible_size < self.minimum_size or not any(
            rank < world.possible_size for rank in world.wanted
        ):
            return False
        return (
            not world.list_is_dead
            or world.possible_size >= world.size
            or world.possible_size in self.unschedulable
        )


def is_outdated(world: World) -> bool:
    """Whether a rank that has crashed would, on its restart, dial the old address of a rank that
    has succeeded, which is now unused or another job's. (All other ranks have their connections,
    and need no new list.)
    """
    ips = world.address_list.addresses
    named = any(rank < len(ips) and ips[rank] != NOBODY for rank in world.succeeded)
    pods = (world.pods.get(rank) for rank in world.unfinished)
    crashed = any(pod and pod.containers.failures > 0 and not pod.ready for pod in pods)
    return world.in_force and named and crashed and not together.is_closing(world)


def _waited(gathering: Gathering, pod: Pod) -> float:
    """Seconds since a pod has arrived; the window where it does not say when: then it was long ago.
    Its node's clock may be ahead of the operator's, by minutes: it has waited at least since it was
    first seen to have arrived.
    """
    seconds, now = since(_arrival(pod), gathering.now), gathering.now
    if seconds is None:
        return gathering.window
    seen = gathering.observed.list_seen.get((pod.uid, ARRIVAL), now)
    return max(seconds, (now - seen).total_seconds())


def _arrival(pod: Pod) -> str:
    """When its image was there: all nodes pull it at once, for minutes where it is large, and the
    ranks whose nodes take a little longer are still to come then.
    """
    return pod.containers.gate_started or pod.placement.placed


def _address(world: World, rank: int) -> str:
    return NOBODY if rank in world.succeeded else world.gang.address(rank, world.pods[rank].ip)


def _is_creating(gathering: Gathering) -> bool:
    """Whether the next rank's pod is being created: the apiserver has not refused it, or only
    because an old pod of its name still ends.
    """
    refusals, member = gathering.observed.refusals, gathering.world.gang.member
    first = (refusals.get(f"pod/{member(rank).name}") for rank in gathering.ranks_to_add[:1])
    return any(no is None or no.why is Refused.TERMINATING for no in first)
