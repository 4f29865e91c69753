"""Gang restart: jobs whose ranks can only start together (Gang.has_gang_restart), such as those of
torchrun (docs/decisions/025-gang-restart.md).

If one rank of such a job must restart, all must, including those that have succeeded. So a success
counts only as long as the peer list under which it happened is active.
"""

from dijob.core.membership.world import World


def all_ranks(world: World) -> frozenset[int]:
    """Return the ranks that a restart of the whole job includes. Without gang restart, these are
    only the ranks that have not succeeded.
    """
    if world.gang.has_gang_restart:
        return frozenset(range(min(world.size, world.gang.size)))
    return frozenset(world.unfinished)


def lasting_successes(world: World) -> frozenset[int]:
    """Return the ranks that still count as succeeded after a loss or a suspension."""
    return frozenset() if world.gang.has_gang_restart else world.succeeded


def succeeded_ranks(world: World) -> frozenset[int]:
    """Return the ranks that have succeeded according to their pods. With gang restart, a rank that
    exits 0 under a stale list restarts with the others.
    """
    stale = world.stale_revision if world.gang.has_gang_restart else -1
    done = (rank for rank, pod in world.pods.items() if pod.containers.succeeded)
    return frozenset(rank for rank in done if world.pods[rank].copy.address_list.number > stale)


def is_closing(world: World) -> bool:
    """Whether ranks may no longer join, because one has succeeded. A late join would restart all
    ranks just as they finish.
    """
    return world.gang.has_gang_restart and world.list_is_active and bool(world.succeeded)


def blocked_on_completed(world: World) -> frozenset[int]:
    """Return the ranks that are blocked on a completed peer: they crashed after another rank had
    succeeded, and would wait for it indefinitely after a restart in their pods.
    """
    if not is_closing(world):
        return frozenset()
    ends = (pod.containers.ended for rank, pod in world.pods.items() if rank in world.succeeded)
    first = min(filter(None, ends), default="~")
    pods = ((rank, world.pods.get(rank)) for rank in world.unfinished)
    return frozenset(rank for rank, pod in pods if pod and pod.containers.ended >= first)
