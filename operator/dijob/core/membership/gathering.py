"""Who is in the next list: the ranks from 0 on without a gap that have addresses, once enough of
them have.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dijob.core.addresses import AddressList
from dijob.core.membership.address_list import NOBODY
from dijob.core.membership.world import World
from dijob.core.observed.views import Observed, Pod, Refused, age, since

# While this operator itself is still creating pods, the window is not over.
CREATING_SECONDS = 1.0


@dataclass(frozen=True)
class Gathering:
    """The world, and the rule by which it begins and grows.

    `window` (seconds) is how long those who have addresses wait for those who are wished for and
    have none. `refused` are the ranks for whose pods there has been no room in a quota for so long
    that they count like ranks without a node (capacity.py).
    """

    world: World
    observed: Observed
    window: float
    now: datetime
    refused: frozenset[int] = frozenset()

    @cached_property
    def next_size(self) -> int:
        """How many ranks the list has that is to be published now; 0: none is."""
        world = self.world
        if world.alive and world.gang.size < world.size:
            return world.gang.size
        if is_outdated(world):
            return world.size
        return world.reach if self._enough and self.wait <= 0 else 0

    @cached_property
    def floor(self) -> int:
        """How many ranks it cannot do without. A world that runs needs no more than it has: where a
        job says `replicas` alone, minReplicas is the same number, and grows when the job is scaled.
        """
        world = self.world
        return world.size if world.alive else min(world.gang.minimum, world.size)

    @cached_property
    def least(self) -> int:
        """How many ranks the next list must have: one more than the one in force, else the floor
        and all who run.
        """
        world = self.world
        return (
            world.size + 1 if world.alive else max(self.floor, max(world.survivors, default=-1) + 1)
        )

    def next_list(self, number: int) -> AddressList:
        """The list that is to be published now, under this number."""
        ranks = range(self.next_size)
        return AddressList.of(number, (_address(self.world, rank) for rank in ranks))

    @cached_property
    def unschedulable(self) -> tuple[int, ...]:
        """The ranks for which the scheduler has found no node, or the apiserver no place for the
        pod, in order.
        """
        world = self.world
        pods = ((rank, world.pods.get(rank)) for rank in world.wanted)
        none = frozenset(
            rank for rank, p in pods if p and not (p.scheduled or p.deleting) and p.complaint
        )
        return tuple(sorted(none | (self.refused & frozenset(world.missing))))

    @cached_property
    def wait(self) -> float:
        """Seconds until those who are there no longer wait for the others; 0 or less: they do not
        wait.
        """
        world = self.world
        renewed = world.dead and world.reach >= world.size
        if not self._enough or renewed or world.reach == world.gang.size:
            return 0.0
        if world.dead:
            # A member that finds no node; one that was refused its pod has been waited for.
            pod = world.pods.get(world.reach)
            waited = age(pod, self.now) if pod else self.window
        else:
            placed = (
                world.pods[rank].placement.placed
                for rank in range(self.least)
                if rank not in world.succeeded
            )
            # Where a pod does not say when it got its node, it was long ago.
            known = (seconds for time in placed if (seconds := since(time, self.now)) is not None)
            waited = min(known, default=self.window)
        return max(self.window - waited, CREATING_SECONDS if _is_creating(self) else 0.0)

    @cached_property
    def pod_to_release(self) -> Pod | None:
        """The highest rank that waits on a node while a lower one finds none: it would only be in
        its way.

        Those that the world cannot do without stay (capacity.py is about them).
        """
        world = self.world
        present = {rank: pod for rank in world.wanted if (pod := world.pods.get(rank))}
        if not self.unschedulable or any(
            pod.deleting for rank, pod in present.items() if rank > self.unschedulable[0]
        ):
            return None
        first = max(self.floor, self.unschedulable[0] + 1)
        idle = [
            rank
            for rank, pod in present.items()
            if rank >= first and pod.scheduled and not pod.has_list
        ]
        return present[max(idle)] if idle else None

    @cached_property
    def needed(self) -> tuple[int, ...]:
        """The ranks of this world that have no pod: all are created at once."""
        return tuple(rank for rank in self.world.missing if rank < self.world.size)

    @cached_property
    def ranks_to_add(self) -> tuple[int, ...]:
        """The ranks that are created one after the other, once all of this world have pods.

        In rank order, so that a scheduler with room for some finds the lowest first. An autoscaler
        must see them all: nobody waits for a node here, save one that was given back for a lower
        rank.
        """
        world, held = self.world, self.observed.released
        if self.needed:
            return ()
        free = []
        for rank in world.missing:
            if (
                self.unschedulable
                and self.unschedulable[0] < rank
                and world.gang.member(rank).name in held
            ):
                break
            free.append(rank)
        return tuple(free)

    @cached_property
    def _enough(self) -> bool:
        """Whether those who have addresses would make a world.

        Who was in the old list is waited for, as long as the scheduler does not say that there is
        no node for him.
        """
        world = self.world
        if world.reach < self.least or not any(rank < world.reach for rank in world.wanted):
            return False
        return not world.dead or world.reach >= world.size or world.reach in self.unschedulable


def is_outdated(world: World) -> bool:
    """Whether a rank has crashed that would, when it starts again, dial the address of one that has
    succeeded: nobody's by then, or another job's. (All the others have had their connection, and
    need no new list.)
    """
    ips = world.address_list.addresses
    named = any(rank < len(ips) and ips[rank] != NOBODY for rank in world.succeeded)
    pods = (world.pods.get(rank) for rank in world.unfinished)
    crashed = any(pod and pod.containers.failures > 0 and not pod.ready for pod in pods)
    return world.alive and named and crashed


def _address(world: World, rank: int) -> str:
    return NOBODY if rank in world.succeeded else world.gang.address(rank, world.pods[rank].ip)


def _is_creating(gathering: Gathering) -> bool:
    """Whether the next rank's pod is being created: it was not refused, or an old pod ends first.

    Those after the first one that is refused are not asked for.
    """
    refusals, member = gathering.observed.refusals, gathering.world.gang.member
    first = (refusals.get(f"pod/{member(rank).name}") for rank in gathering.ranks_to_add[:1])
    return any(no is None or no.why is Refused.TERMINATING for no in first)
