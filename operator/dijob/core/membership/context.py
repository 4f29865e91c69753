"""The context of a pass: the job, its world and what has been counted, as every decision sees
them.
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
    """Everything that one pass knows.

    `status` has this pass's counts in it, and `has_unstored_counts` says that a failure or success
    among them is not stored yet. `new_failures` are the ranks that have failed since the last pass,
    oldest first, and what that leads to.
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
        """Why the newest list is not true any more; None while it is."""
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
