"""Reads the PodDisruptionBudgets of jobs (core/render/budget.py).

PodDisruptionBudgets are not watched, because most jobs have none. The operator writes them itself
and knows their content. So the operator reads only budgets that it does not know yet. After a while
it reads them again, because someone may have edited or deleted them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dijob.api.model import DIJob
from dijob.core.membership.list_state import ListState, list_state
from dijob.core.observed import rejections
from dijob.core.observed.parse import owner_of
from dijob.core.observed.views import ApiRejection, BudgetView
from dijob.core.render.budget import wanted_budgets
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import BUDGETS
from dijob.process.clock import SYSTEM, Clock

# How long the operator relies on what it has read or written: a little less than the longest
# interval between two reconciliations (core/decide/requeue.py).
VALID_SECONDS = 290.0


@dataclass
class BudgetMemory:
    """What is known about the budgets of a job. `found` maps the name of each budget to the object,
    or to None if the object does not exist. `due` is when the budgets are read again (monotonic
    seconds).
    """

    found: dict[str, BudgetView | None] = field(default_factory=dict)
    due: float = 0.0

    def put(self, body: Mapping[str, Any]) -> None:
        """Remember an object from a response of the API server."""
        meta = body["metadata"]
        self.found[meta["name"]] = BudgetView(meta["name"], meta["uid"], body.get("spec") or {})


class BudgetReader:
    """Reads budgets into a BudgetMemory."""

    def __init__(self, api: Api, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._clock = clock

    async def read(
        self, job: DIJob, memory: BudgetMemory, refused: dict[str, ApiRejection]
    ) -> None:
        """Read the budgets that are due to be read. A rejection is noted in `refused`."""
        if job.metadata.deletion_timestamp or job.paused:
            return
        now = self._clock.monotonic()
        names = self._names_to_read(job)
        if names and memory.due <= now:
            memory.found.clear()
            memory.due = now + VALID_SECONDS
        for name in names:
            if name not in memory.found:
                await self._read(job, name, memory, refused)

    def _names_to_read(self, job: DIJob) -> tuple[str, ...]:
        """Return the names of the budgets that the plan could create, change or delete now. Only
        budgets whose names are in status.budgets can exist.
        """
        stored = tuple(job.status.budgets.split())
        if not stored or list_state(job.status) is ListState.ACTIVE:
            return stored
        if job.status.ended or job.status.suspend_time:
            return stored
        wanted = {one.name for one in wanted_budgets(job)}
        return tuple(name for name in stored if name not in wanted)

    async def _read(
        self,
        job: DIJob,
        name: str,
        memory: BudgetMemory,
        refused: dict[str, ApiRejection],
    ) -> None:
        key, now = f"get {BUDGETS.name.lower()}/{name}", self._clock.now()
        before = refused.get(key)
        if before and before.retry_at > now:
            return
        try:
            body = await self._api.get(BUDGETS.path(job.metadata.namespace, name))
        except RequestError as error:
            if error.status in (401, 403):
                refused[key] = rejections.of_change(error.status, error.message, before, now)
                return
            if not error.not_found:
                raise
            memory.found[name] = None
        else:
            # An object with this name that has another owner is treated as absent. Creating the
            # budget then fails because the name is taken, and the error names the owner.
            if owner_of(body["metadata"]) == job.metadata.owner_key:
                memory.put(body)
            else:
                memory.found[name] = None
        refused.pop(key, None)
