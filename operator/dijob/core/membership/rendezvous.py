"""The rendezvous: which ranks the next peer list contains, and when it is published.

A list contains ranks with addresses, starting with rank 0 and without gaps, because programs
compute their peers from ranks. It is published once the required ranks have addresses and the join
window for the others is over. This module also decides which pods to create and which to release.

A size of n always means ranks 0 to n-1. `gang.size` is the desired size, `world.size` the current
one, and `world.possible_size` the largest size that a list could have now. `required_size` is what
the job needs, `minimum_size` the smallest size of the next list, and `next_size` the size of the
list to publish now.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dijob.core.addresses import AddressList
from dijob.core.membership import gang_restart
from dijob.core.membership.address_list import PLACEHOLDER
from dijob.core.membership.world import World
from dijob.core.observed.views import ARRIVAL, Observed, Pod, RejectionCause, pod_age, seconds_since

# The join window stays open at least this long while this operator is still creating pods, because
# the missing ranks cannot have addresses yet.
CREATING_SECONDS = 1.0


@dataclass(frozen=True)
class Rendezvous:
    """The world, and the rules by which it starts and grows.

    `window` is the join window: the number of seconds that the ranks with an address wait for the
    desired ranks that have no address yet. `refused` are the ranks whose pods have been rejected
    for at least as long as the admission timeout; they count as ranks without a node (capacity.py).
    """

    world: World
    observed: Observed
    window: float
    now: datetime
    refused: frozenset[int] = frozenset()

    @cached_property
    def next_size(self) -> int:
        """The size of the peer list to publish now; 0 if none is due."""
        world = self.world
        # A smaller list needs no new address, so it never waits for the join window.
        if world.list_is_active and world.gang.size < world.size:
            return world.gang.size
        if is_outdated(world):
            return world.size
        if not self._enough or self.seconds_left > 0:
            return 0
        if not gang_restart.is_closing(world, world.listed_size):
            return world.possible_size
        # Other ranks that restart still need a list.
        return 0 if world.list_is_active else min(world.possible_size, world.listed_size)

    @cached_property
    def required_size(self) -> int:
        """How many ranks the job needs. A running job needs only the ranks that it has.
        (minReplicas may be greater: its default is `replicas`, which a scale-up increases.)
        """
        world = self.world
        return world.size if world.list_is_active else min(world.gang.minimum, world.size)

    @cached_property
    def minimum_size(self) -> int:
        """The smallest size of the next list: one more than the size of the active list. Without an
        active list, it is the required size, or more if higher ranks are running.
        """
        world = self.world
        return (
            world.size + 1
            if world.list_is_active
            else max(self.required_size, max(world.survivors, default=-1) + 1)
        )

    def next_list(self, number: int) -> AddressList:
        """Return the list to publish now, with this revision."""
        return AddressList.of(
            number, (_listed_address(self.world, r) for r in range(self.next_size))
        )

    @cached_property
    def unschedulable(self) -> tuple[int, ...]:
        """The unschedulable ranks, in order.

        The scheduler has found no node for them, or their pods have been rejected for at least as
        long as the admission timeout.
        """
        world = self.world
        pods = ((rank, world.pods.get(rank)) for rank in world.wanted)
        none = frozenset(rank for rank, pod in pods if pod and pod.seeks_node)
        return tuple(sorted(none | (self.refused & frozenset(world.missing))))

    @cached_property
    def seconds_left(self) -> float:
        """The seconds until the join window is over; 0 or less: it is over."""
        world = self.world
        complete = world.list_is_stale and world.possible_size >= world.size
        if not self._enough or complete or world.possible_size == world.gang.size:
            return 0.0
        if world.list_is_stale:
            # The first missing rank is unschedulable for one of two reasons. If the scheduler finds
            # no node for its pod, the window is counted from the creation of the pod. If the
            # creation of its pod was rejected, there is no pod, and the window is over.
            pod = world.pods.get(world.possible_size)
            waited = pod_age(pod, self.now) if pod else self.window
        else:
            arrived = (
                world.pods[rank] for rank in range(self.minimum_size) if rank not in world.succeeded
            )
            waited = min(
                (_seconds_since_arrival(self, pod) for pod in arrived), default=self.window
            )
        return max(self.window - waited, CREATING_SECONDS if _is_creating(self) else 0.0)

    @cached_property
    def pod_to_release(self) -> Pod | None:
        """The pod to release if a lower rank is unschedulable: the pod of the highest rank that is
        scheduled but has no peer list yet. None if there is no such pod. The higher rank's pod is
        deleted, so that its node becomes available to the lower rank. A list has no gaps, so the
        higher rank could not join without the lower one.

        Ranks below the required size are not released here (see capacity.py).
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
        """The ranks of the current world that lack a pod; all of their pods are created at once."""
        return tuple(rank for rank in self.world.missing if rank < self.world.size)

    @cached_property
    def ranks_to_add(self) -> tuple[int, ...]:
        """The ranks that join: their pods are created one after the other, once all ranks of the
        current world have pods.

        The pods are created in rank order, so that the scheduler places the lowest ranks first if
        the cluster has capacity for only some of them. Pods are created even if no node has room
        for them, because a cluster autoscaler must see them. A pod that was deleted to make room
        for a lower rank is re-created only when the lower rank has a node.
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
        """Whether the ranks that have addresses are enough for a list. Ranks of a stale list are
        required as well, unless the scheduler finds no node for them.
        """
        world = self.world
        if world.possible_size < self.minimum_size or not any(
            rank < world.possible_size for rank in world.wanted
        ):
            return False
        return (
            not world.list_is_stale
            or world.possible_size >= world.size
            or world.possible_size in self.unschedulable
        )


def is_outdated(world: World) -> bool:
    """Whether a crashed rank would connect to the old address of a succeeded rank when it restarts.
    That address may be unused or belong to another job by now, so a new list with placeholders is
    needed. (All other ranks already have their connections and need no new list.)
    """
    ips = world.address_list.addresses
    named = any(rank < len(ips) and ips[rank] != PLACEHOLDER for rank in world.succeeded)
    pods = (world.pods.get(rank) for rank in world.unfinished)
    # If the group of a crashed rank accepts no more ranks, the whole group restarts. The group then
    # gets a new list in any case.
    crashed = any(
        pod.containers.failures > 0
        and not pod.ready
        and not gang_restart.is_closing(world, pod.rank)
        for pod in pods
        if pod
    )
    return world.list_is_active and named and crashed


def _seconds_since_arrival(rendezvous: Rendezvous, pod: Pod) -> float:
    """Return the seconds since a pod arrived. If the time is unknown, the pod is assumed to have
    arrived long ago, so the result is the length of the join window. The clock of the pod's node
    may be minutes ahead of the operator's clock. So the result is at least the time since the
    operator first saw the pod.
    """
    seconds, now = seconds_since(_arrival_time(pod), rendezvous.now), rendezvous.now
    if seconds is None:
        return rendezvous.window
    seen = rendezvous.observed.list_seen.get((pod.uid, ARRIVAL), now)
    return max(seconds, (now - seen).total_seconds())


def _arrival_time(pod: Pod) -> str:
    """Return the earliest known time at which the pod's image was on the node. All nodes pull a
    large image at the same time, which takes minutes. The join window must not start before the
    image is on the node. Otherwise, ranks whose nodes take a little longer would miss it.
    """
    return pod.containers.gate_started or pod.placement.placed


def _listed_address(world: World, rank: int) -> str:
    return PLACEHOLDER if rank in world.succeeded else world.gang.address(rank, world.pods[rank].ip)


def _is_creating(rendezvous: Rendezvous) -> bool:
    """Whether the pod of the next rank is being created.

    This is so if it was not rejected, or was rejected only because an old pod with the same name is
    still terminating.
    """
    rejections, member = rendezvous.observed.rejections, rendezvous.world.gang.member
    first = (rejections.get(f"pod/{member(rank).name}") for rank in rendezvous.ranks_to_add[:1])
    return any(no is None or no.why is RejectionCause.TERMINATING for no in first)
