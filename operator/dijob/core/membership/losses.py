"""Who is lost: the rules by which the newest address list is no longer true for a rank."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dijob.core.members import say
from dijob.core.membership import together
from dijob.core.membership.world import World
from dijob.core.observed.views import Pod
from dijob.names import Addressing
from dijob.reasons import AddressesReady


@dataclass(frozen=True)
class Loss:
    """Why an address list has died: a reason for programs, a sentence for people, and the ranks to
    renew.
    """

    reason: AddressesReady
    message: str
    ranks: frozenset[int] = frozenset()


Rule = Callable[[World, Pod], Loss | None]


def loss_of(world: World) -> Loss | None:
    """What has become untrue for ranks that are not being renewed yet, None while all of it
    holds.
    """
    if world.nobody_runs or not world.unfinished:
        return None
    everybody = together.everybody(world)
    unproven = world.in_force and not world.address_list.text
    # Ranks that were added after the list was made are not in it, and so are not lost.
    size = world.listed_size or world.size
    known = [rank for rank in world.unfinished if rank not in world.renewing and rank < size]
    lost = _stranded(world) | {rank: loss for rank in known if (loss := _loss(world, rank))}
    if lost:
        renewed = frozenset(lost).union(*(world.gang.dialers(rank) for rank in lost))
        # Ranks whose restart has not been requested since the last loss have a dead list too.
        renewed |= world.renewing | world.restarts.unrequested
        # Without a list that is proven, nothing that runs knows whom it dials.
        all_are = world.gang.renews_all_on_loss or unproven
        return replace(lost[min(lost)], ranks=everybody if all_are else renewed & everybody)
    if unproven:
        number = world.address_list.number
        message = f"the pods' addresses no longer match peer list revision {number}"
        return Loss(AddressesReady.ListLost, message, everybody)
    return None


def _stranded(world: World) -> dict[int, Loss]:
    """Who would begin again alone, whatever its failure costs."""
    return {
        rank: Loss(
            AddressesReady.PodFailed,
            f"rank {rank}: it cannot restart without {say(world.succeeded)}",
        )
        for rank in together.stranded(world)
    }


def _loss(world: World, rank: int) -> Loss | None:
    """The first rule that finds the rank lost."""
    pod = world.pods.get(rank)
    if pod is None:
        return Loss(AddressesReady.PodLost, f"rank {rank}: its pod is gone")
    for rule in RULES:
        if loss := rule(world, pod):
            return replace(loss, message=f"rank {rank}: {loss.message}")
    return None


def _deleted(world: World, pod: Pod) -> Loss | None:
    return (
        Loss(AddressesReady.PodDeleted, f"pod {pod.name} is being deleted")
        if pod.deleting
        else None
    )


def _failed(world: World, pod: Pod) -> Loss | None:
    ending = pod.containers.last_end
    why = pod.complaint or (ending.words if ending else "no reason given")
    return Loss(AddressesReady.PodFailed, f"pod {pod.name} failed ({why})") if pod.failed else None


def _without_sandbox(world: World, pod: Pod) -> Loss | None:
    """The kubelet (1.34 to 1.37) may never report the new address: it reports nothing while an init
    container that had succeeded runs again, and the gate, which runs again, waits for a list that
    needs that address."""
    if pod.containers.sandbox:
        return None
    return Loss(
        AddressesReady.SandboxLost, f"the sandbox of pod {pod.name} died, and its address with it"
    )


def _moved(world: World, pod: Pod) -> Loss | None:
    if not has_moved(world, pod):
        return None
    return Loss(
        AddressesReady.AddressChanged,
        f"the address of pod {pod.name} changed from {_known_ip(world, pod)} to {pod.ip}",
    )


def _not_restarted(world: World, pod: Pod) -> Loss | None:
    if pod.rank not in world.restarts.overdue:
        return None
    said = f"pod {pod.name} did not restart its process within its grace period"
    return Loss(AddressesReady.NotRestarted, f"{said} (its command may not forward SIGTERM)")


def _without_its_redis(world: World, pod: Pod) -> Loss | None:
    """redis-py may never notice that a connection is dead, and one that was begun as the server
    went can take TCP two minutes."""
    began, now = pod.copy.redis_run, world.redis_run
    if now and began not in ("", now) and pod.rank not in world.restarts.unrequested:
        return Loss(
            AddressesReady.BrokerLost,
            f"the Redis server {world.gang.server} that it started with is gone",
        )
    return None


# In the order in which they are asked.
RULES: tuple[Rule, ...] = (
    _deleted,
    _without_sandbox,
    _failed,
    _moved,
    _not_restarted,
    _without_its_redis,
)


def has_moved(world: World, pod: Pod) -> bool:
    """Whether the pod has another address than its list says: its sandbox was made again."""
    return "" not in (was := _known_ip(world, pod), pod.ip) and was != pod.ip


def _known_ip(world: World, pod: Pod) -> str:
    """The pod's IP by the newest list, if that is about this pod; "" where it is not."""
    if world.gang.addressing is Addressing.HOSTNAME:
        return pod.copy.pod_ip
    ips = world.address_list.addresses
    concerned = pod.has_list or pod.rank not in world.renewing
    return ips[pod.rank] if concerned and pod.rank < len(ips) else ""
