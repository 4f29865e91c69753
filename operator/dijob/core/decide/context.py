"""The context of a reconciliation: the job, its world and what has been counted. All functions that
decide or report take it as `ctx`, so they all see the same state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dijob.api.model import DIJob
from dijob.api.status import Status
from dijob.core.membership.losses import Loss, loss_of
from dijob.core.membership.policy import Policy
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.membership.world import World
from dijob.core.observed.views import Observed, Pod
from dijob.core.render.annotations import derived_fingerprints
from dijob.names import FailureAction


@dataclass(frozen=True)
class Context:
    """Everything that one reconciliation knows.

    `job.status` is the stored status. `next_status` is the new one: it includes the counts of this
    reconciliation, and `has_unstored_counts` says that a failure or success among them is not
    stored yet. `new_failures` maps the ranks that have failed since the last reconciliation to the
    actions of the failure policy, oldest failure first.
    """

    job: DIJob
    world: World
    observed: Observed
    now: datetime
    # The ranks whose pods have been rejected for the admission timeout.
    rejected_ranks: frozenset[int]
    next_status: Status
    policy: Policy
    template_changed: bool
    has_unstored_counts: bool
    new_failures: Mapping[int, FailureAction]

    @cached_property
    def rendezvous(self) -> Rendezvous:
        """Which ranks the next peer list can have, and which of them are still awaited."""
        return Rendezvous(
            world=self.world,
            observed=self.observed,
            window=self.job.spec.gather_seconds,
            now=self.now,
            refused=self.rejected_ranks,
        )

    @cached_property
    def loss(self) -> Loss | None:
        """Why the newest peer list is stale for some ranks; None if it is not."""
        return loss_of(self.world)

    @cached_property
    def unpublished(self) -> tuple[Pod, ...]:
        """The pods to which the active list must be written."""
        return pods_without_list(self.world)


def pods_without_list(world: World) -> tuple[Pod, ...]:
    """Return the pods to which the active list must be written.

    It has not been written yet (an operator can be killed halfway), somebody has edited it or the
    pod's labels, or it was written while the job's Redis server was not running.
    """
    pods = (world.pods.get(rank) for rank in world.unfinished)
    return tuple(pod for pod in pods if pod and not _has_newest(world, pod))


def _has_newest(world: World, pod: Pod) -> bool:
    """Whether the pod has the newest list, everything derived from it, and its own labels."""
    copy, newest = pod.copy, world.address_list
    if not newest.text or copy.address_list != newest:
        return False  # Without verified addresses no copy can be correct.
    sound = pod.recognized and not copy.tampered and bool(copy.redis_run or not world.redis_run)
    return sound and derived_fingerprints(world.gang, newest, pod.made.reads) <= copy.derived
