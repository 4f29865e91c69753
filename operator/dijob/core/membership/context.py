"""The context of a reconciliation: the job, its world and what has been counted. All functions that
decide or report take it as `ctx`, so they all see the same state.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from dijob.api.model import DIJob
from dijob.api.status import Status
from dijob.core.membership.gathering import Gathering
from dijob.core.membership.losses import Loss, loss_of
from dijob.core.membership.policy import Policy
from dijob.core.membership.world import World
from dijob.core.observed.views import Observed
from dijob.names import FailureAction


@dataclass(frozen=True)
class Pass:
    """Everything that one reconciliation knows.

    `job.status` is the stored status. `status` is the new one: it includes the counts of this
    reconciliation, and `has_unstored_counts` says that a failure or success among them is not
    stored yet. `new_failures` maps the ranks that have failed since the last reconciliation to the
    actions of the failure policy, oldest failure first.
    """

    job: DIJob
    gathering: Gathering
    status: Status
    policy: Policy
    template_changed: bool
    has_unstored_counts: bool
    new_failures: Mapping[int, FailureAction]

    @cached_property
    def loss(self) -> Loss | None:
        """Why the newest peer list is stale for some ranks; None if it is not."""
        return loss_of(self.world)

    @property
    def world(self) -> World:
        return self.gathering.world

    @property
    def observed(self) -> Observed:
        return self.gathering.observed

    @property
    def now(self) -> datetime:
        return self.gathering.now
