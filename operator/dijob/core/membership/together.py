"""Ranks that begin together, or not at all (Gang.begins_together): what that means where some have
succeeded (docs/decisions/025-gang-restart.md).

Their success lasts as long as the list under which it came. If any rank has to begin again, all do.
"""

from dijob.core.membership.world import World


def everybody(world: World) -> frozenset[int]:
    """The ranks that start again where all do."""
    if world.gang.begins_together:
        return frozenset(range(min(world.size, world.gang.size)))
    return frozenset(world.unfinished)


def lasting_successes(world: World) -> frozenset[int]:
    """The ranks whose success a renewal, or a suspension, leaves as it is."""
    return frozenset() if world.gang.begins_together else world.succeeded


def successes(world: World) -> frozenset[int]:
    """The ranks that have succeeded, as their pods show. Where ranks begin together, one that exits
    0 under a list that has died begins again with the others.
    """
    void = world.died if world.gang.begins_together else -1
    done = (rank for rank, pod in world.pods.items() if pod.containers.succeeded)
    return frozenset(rank for rank in done if world.pods[rank].copy.address_list.number > void)


def is_closing(world: World) -> bool:
    """Whether nobody joins any more: all would do again what they have done, for one that comes
    when the others begin to leave.
    """
    return world.gang.begins_together and world.in_force and bool(world.succeeded)


def stranded(world: World) -> frozenset[int]:
    """The ranks that crashed after another one had succeeded, whose pod is still there: those that
    start again in their pods would wait for it for ever.
    """
    if not is_closing(world):
        return frozenset()
    ends = (pod.containers.ended for rank, pod in world.pods.items() if rank in world.succeeded)
    first = min(filter(None, ends), default="~")
    pods = ((rank, world.pods.get(rank)) for rank in world.unfinished)
    return frozenset(rank for rank, pod in pods if pod and pod.containers.ended >= first)
