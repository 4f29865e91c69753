"""Gang restart: groups of ranks that can only start together (Gang.groups), such as those of
torchrun (docs/decisions/025-gang-restart.md). A group is a whole job, or one of its tasks
(docs/decisions/058-runtime-per-task.md).

If one rank of a group must restart, all must, including those that have succeeded. So a success
counts only as long as the peer list under which it happened is active.
"""

from collections.abc import Set

from dijob.core.membership.list_state import ListState
from dijob.core.membership.world import World
from dijob.names import MAX_REPLICAS


def all_ranks(world: World) -> frozenset[int]:
    """Return the ranks that a restart of the whole job includes: those that have not succeeded, and
    all other ranks of their groups.
    """
    if world.gang.has_gang_restart:
        return frozenset(range(min(world.size, world.gang.size)))
    return _with_groups(world, frozenset(world.unfinished))


def restarting_with(world: World, ranks: frozenset[int]) -> frozenset[int]:
    """Return these ranks, and all ranks that restart together with them.

    A rank restarts with them if it connects to a restarting rank, or if another rank of its group
    restarts.
    """
    found = ranks.union(*map(world.gang.dialers, ranks))
    while (grown := _with_groups(world, found)) != found:
        found = grown.union(*map(world.gang.dialers, grown - found))
    return found


def lasting_successes(world: World, restarting: Set[int]) -> frozenset[int]:
    """Return the ranks that still count as succeeded after a restart of the `restarting` ranks."""
    if world.gang.has_gang_restart:
        return frozenset()
    return world.succeeded - _with_groups(world, frozenset(restarting) - world.succeeded)


def complete_successes(world: World, succeeded: frozenset[int]) -> frozenset[int]:
    """Return the succeeded ranks that need not restart when a job starts without a peer list.
    During a suspension, a group may have gained ranks, or several ranks may have become a group.
    The ranks of a group can only start together.
    """
    wanted = frozenset(range(world.gang.size)) - succeeded
    groups = tuple(group for group in world.gang.groups if _any_in(group, wanted))
    return frozenset(rank for rank in succeeded if not any(rank in group for group in groups))


def last_group(world: World) -> frozenset[int]:
    """Return the world's ranks in the group that grows or shrinks if the job is scaled."""
    groups = (group for group in world.gang.groups if group.stop == MAX_REPLICAS)
    return frozenset(rank for group in groups for rank in all_ranks(world) if rank in group)


def succeeded_ranks(world: World) -> frozenset[int]:
    """Return the ranks that have succeeded according to their pods. A rank that exited 0 under a
    stale list is left out if it restarts together with the other ranks.
    """
    done = (rank for rank, pod in world.pods.items() if pod.containers.succeeded)
    return frozenset(rank for rank in done if not _restarts_anyway(world, rank))


def is_closing(world: World, rank: int) -> bool:
    """Whether the group of this rank accepts no more ranks, because one of its ranks has succeeded.
    A late join would restart the whole group just as it finishes.
    """
    if world.state is ListState.NONE or not world.succeeded:
        return False
    return any(rank in group and _any_in(group, world.succeeded) for group in world.gang.groups)


def blocked_on_completed(world: World) -> dict[int, frozenset[int]]:
    """Map each rank that is blocked on completed peers to those peers. Such a rank crashed after
    another rank of its group had succeeded. After a restart in its pod, the crashed rank would wait
    for the completed rank indefinitely.
    """
    found = dict[int, frozenset[int]]()
    for group in world.gang.groups if world.list_is_active else ():
        done = frozenset(rank for rank in world.succeeded if rank in group)
        ends = (pod.containers.ended for rank, pod in world.pods.items() if rank in done)
        first = min(filter(None, ends), default="~")
        pods = ((rank, world.pods.get(rank)) for rank in world.unfinished if rank in group)
        crashed = (rank for rank, pod in pods if pod and pod.containers.ended >= first)
        found |= dict.fromkeys(crashed, done) if done else {}
    return found


def _with_groups(world: World, ranks: frozenset[int]) -> frozenset[int]:
    """Return these ranks, and all ranks of the world that share a group with any of them."""
    # While a list is stale, the world may be too small to include a rank that has succeeded.
    size = world.size if world.list_is_active else max(world.size, world.listed_size)
    size = min(size, world.gang.size)
    touched = (group for group in world.gang.groups if _any_in(group, ranks))
    return ranks.union(*(range(group.start, min(group.stop, size)) for group in touched))


def _any_in(group: range, ranks: Set[int]) -> bool:
    return any(rank in group for rank in ranks)


def _restarts_anyway(world: World, rank: int) -> bool:
    """Whether a rank of a group restarts even if its pod shows that it has succeeded."""
    stale = world.pods[rank].copy.address_list.number <= world.stale_revision
    if world.gang.has_gang_restart:
        return stale
    # If there is neither an active nor a stale list, the job was suspended, so all ranks restart.
    restarts = rank in world.renewing or world.state is ListState.NONE
    return stale and restarts and any(rank in group for group in world.gang.groups)
