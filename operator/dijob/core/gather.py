"""Who is in the next list: the ranks from 0 on without a gap that have addresses, once enough of them have."""

from dataclasses import dataclass
from datetime import datetime

from dijob.core.observe import Creation, Observed, Pod
from dijob.core.world import World


@dataclass(frozen=True)
class Gathering:
    """The world, and the rule by which it begins and grows.

    `window` (seconds) is how long those who have addresses wait for those who are wished for and have none.
    """

    world: World
    window: float
    now: datetime

    @property
    def size(self) -> int:
        """How many ranks the list has that is to be published now; 0: none is."""
        world = self.world
        if world.alive and world.gang.size < world.size:
            return world.gang.size
        if world.outdated:
            return world.size
        return world.reach if self._enough and self.wait <= 0 else 0

    @property
    def wait(self) -> float:
        """Seconds until those who are there no longer wait for the others; 0 or less: they do not wait."""
        world = self.world
        if not self._enough or world.reach == world.gang.size:
            return 0.0
        placed = [self._since(world.pods[rank]) for rank in range(world.least) if rank not in world.succeeded]
        return self.window - min(placed, default=self.window)

    @property
    def given_back(self) -> Pod | None:
        """The highest rank that waits on a node while a lower one finds none: it would only be in its way.

        Ranks below the minimum stay: without them nothing begins (for those see room.py).
        """
        world = self.world
        present = {rank: pod for rank in world.wanted if (pod := world.pods.get(rank))}
        lowest = lowest_homeless(world)
        if lowest is None or any(pod.deleting for rank, pod in present.items() if rank > lowest):
            return None
        first = max(world.gang.minimum, lowest + 1)
        idle = [rank for rank, pod in present.items() if rank >= first and pod.scheduled and not pod.ips]
        return present[max(idle)] if idle else None

    @property
    def _enough(self) -> bool:
        world = self.world
        return world.reach >= world.least and any(rank < world.reach for rank in world.wanted)

    def _since(self, pod: Pod) -> float:
        """Seconds since the pod got its node; where it does not say, long enough."""
        try:
            return (self.now - datetime.fromisoformat(pod.placed)).total_seconds()
        except ValueError:
            return self.window


def recruits(world: World, observed: Observed) -> tuple[int, ...]:
    """The ranks whose pods may be created now.

    Those below the minimum all at once, the others one after the other in rank order, so that a scheduler with room
    for some finds the lowest first. An autoscaler must see them all: nobody waits for a node here, save one that was
    given back for a lower rank.
    """
    needed = tuple(rank for rank in world.missing if rank < world.gang.minimum)
    if needed or not world.missing:
        return needed
    first, lowest = world.missing[0], lowest_homeless(world)
    again: Creation | None = observed.creations.get(world.gang.members[first].name)
    return () if again and lowest is not None and lowest < first else (first,)


def lowest_homeless(world: World) -> int | None:
    """The lowest rank for which the scheduler has found no node."""
    pods = ((rank, world.pods.get(rank)) for rank in world.wanted)
    return next((rank for rank, p in pods if p and not (p.scheduled or p.deleting) and p.complaint), None)
