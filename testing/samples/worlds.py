"""Jobs of three ranks: before the start, with a peer list, and without one of the ranks."""

from typing import Any

from dijob.api.status import Status
from dijob.core.members import compact_ranks
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.membership.world import World
from dijob.core.observed.views import Observed, Pod

from samples.builders import ALL, NOW, gang, observed, view, world_of

FRESH = (view(0), view(1), view(2))


def world(
    seen: Observed, size: int = 3, succeeded: frozenset[int] = frozenset(), **status: Any
) -> World:
    return world_of(
        gang(size=size), seen, Status(succeeded_ranks=compact_ranks(succeeded), **status), NOW
    )


def rendezvous(found: World) -> Rendezvous:
    return Rendezvous(found, observed(), 0, NOW)


def without(rank: int, pods: tuple[Pod, ...] = ALL) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.rank != rank)


def instead(pod: Pod, pods: tuple[Pod, ...] = ALL) -> tuple[Pod, ...]:
    return (*without(pod.rank, pods), pod)
