"""The rules that decide whether a rank is lost. A lost rank makes the newest peer list stale.

A lost rank comes back with a new address. The ranks that connect to its old address would never
find it again, so they restart with the next list (docs/decisions/006).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dijob.core.members import format_ranks
from dijob.core.membership import gang_restart
from dijob.core.membership.world import World
from dijob.core.observed.views import Pod
from dijob.names import Addressing
from dijob.reasons import AddressesReady


@dataclass(frozen=True)
class Loss:
    """Why a peer list is stale: a machine-readable reason, a human-readable message, the ranks that
    must restart, and those of them that were lost or failed.
    """

    reason: AddressesReady
    message: str
    ranks: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()


Rule = Callable[[World, Pod], Loss | None]


def loss_of(world: World) -> Loss | None:
    """Return the loss of ranks that are not restarting already; None if the list is still correct
    for them.
    """
    if world.no_rank_runs or not world.unfinished:
        return None
    everybody = gang_restart.all_ranks(world)
    unproven = world.list_is_active and not world.address_list.text
    # Ranks that were added after the list was published are not in it, so they cannot be lost.
    size = world.listed_size or world.size
    known = [rank for rank in world.unfinished if rank not in world.renewing and rank < size]
    lost = _blocked_losses(world) | {
        rank: loss for rank in known if (loss := _find_loss(world, rank))
    }
    if lost:
        renewed = gang_restart.restarting_with(world, frozenset(lost))
        # Ranks whose restart has not been requested since the last loss also have a stale list.
        renewed |= world.renewing | world.restarts.unrequested
        # Without a verified list, the operator does not know to which addresses the running
        # programs connect.
        all_are = world.gang.renews_all_on_loss or unproven
        ranks = everybody if all_are else renewed & everybody
        return replace(lost[min(lost)], ranks=ranks, lost=frozenset(lost))
    if unproven:
        number = world.address_list.number
        message = f"the pods' addresses no longer match peer list revision {number}"
        return Loss(AddressesReady.ListLost, message, everybody)
    return None


def _blocked_losses(world: World) -> dict[int, Loss]:
    """Return the ranks that are blocked on a completed peer, as losses."""
    return {
        rank: Loss(
            AddressesReady.PodFailed,
            f"rank {rank}: it cannot restart without {format_ranks(peers)}",
        )
        for rank, peers in gang_restart.blocked_on_completed(world).items()
    }


def _find_loss(world: World, rank: int) -> Loss | None:
    """Return the loss according to the first rule that applies."""
    pod = world.pods.get(rank)
    if pod is None:
        return Loss(AddressesReady.PodLost, f"rank {rank}: its pod is gone")
    # The rules see one pod at a time. The function loss_of decides which other ranks a loss
    # affects.
    for rule in RULES:
        if loss := rule(world, pod):
            return replace(loss, message=f"rank {rank}: {loss.message}")
    return None


def _pod_deleted(world: World, pod: Pod) -> Loss | None:
    return (
        Loss(AddressesReady.PodDeleted, f"pod {pod.name} is being deleted")
        if pod.deleting
        else None
    )


def _pod_failed(world: World, pod: Pod) -> Loss | None:
    ending = pod.containers.last_end
    why = pod.complaint or (ending.words if ending else "no reason given")
    return Loss(AddressesReady.PodFailed, f"pod {pod.name} failed ({why})") if pod.failed else None


def _without_sandbox(world: World, pod: Pod) -> Loss | None:
    """The sandbox died. The operator declares the rank lost at once, because the kubelet (1.34 to
    1.37) may never report the new address. In a new sandbox, init containers that have already
    succeeded run again. During that time, the kubelet does not report the new address. The gate is
    such a container, and it waits for a list that must contain the new address.
    """
    if pod.containers.sandbox:
        return None
    return Loss(
        AddressesReady.SandboxLost,
        f"the sandbox of pod {pod.name} died, so the pod lost its address",
    )


def _address_changed(world: World, pod: Pod) -> Loss | None:
    if not has_moved(world, pod):
        return None
    return Loss(
        AddressesReady.AddressChanged,
        f"the address of pod {pod.name} changed from {_known_ip(world, pod)} to {pod.ip}",
    )


def _not_restarted(world: World, pod: Pod) -> Loss | None:
    if pod.rank not in world.restarts.overdue:
        return None
    late = f"pod {pod.name} did not restart its process within its grace period"
    return Loss(AddressesReady.NotRestarted, f"{late} (its command might not forward SIGTERM)")


def _without_its_redis(world: World, pod: Pod) -> Loss | None:
    """The job's own Redis server was replaced. The ranks restart, because redis-py may never notice
    that a connection is dead. TCP may also keep trying to connect to the old server for two
    minutes.
    """
    began, now = pod.copy.redis_run, world.redis_run
    if now and began not in ("", now) and pod.rank not in world.restarts.unrequested:
        return Loss(
            AddressesReady.BrokerLost,
            f"the Redis server {world.gang.server} that the rank started with is gone",
        )
    return None


# The first rule that applies gives the reason, so the most specific causes come first.
RULES: tuple[Rule, ...] = (
    _pod_deleted,
    _without_sandbox,
    _pod_failed,
    _address_changed,
    _not_restarted,
    _without_its_redis,
)


def has_moved(world: World, pod: Pod) -> bool:
    """Whether the pod's address differs from the one in the list. This happens if its sandbox was
    re-created.
    """
    return "" not in (was := _known_ip(world, pod), pod.ip) and was != pod.ip


def _known_ip(world: World, pod: Pod) -> str:
    """Return the pod's IP in the newest list; "" if that list does not apply to this pod."""
    if world.gang.addressing is Addressing.HOSTNAME:
        return pod.copy.pod_ip
    ips = world.address_list.addresses
    concerned = pod.has_list or pod.rank not in world.renewing
    return ips[pod.rank] if concerned and pod.rank < len(ips) else ""
