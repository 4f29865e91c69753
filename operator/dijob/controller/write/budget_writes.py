"""Changes and deletes the PodDisruptionBudgets of jobs. The Creator creates them."""

from dijob.controller.observe.budget_reader import BudgetMemory
from dijob.controller.write.batch import Batch
from dijob.core.actions import ChangeBudget, DeleteBudget
from dijob.core.render.budget import budget_spec
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import BUDGETS
from dijob.kube.patches import merge_patch
from dijob.process.clock import Clock


class BudgetWrites:
    """Writes budgets, and remembers the responses."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def change(self, batch: Batch, action: ChangeBudget) -> None:
        """Patch the fields of the spec that differ."""
        memory = batch.memory.budgets
        found = memory.found.get(action.name)
        wanted = budget_spec(batch.job, action.task, action.least)
        patch = {
            "metadata": {"uid": action.uid},
            "spec": merge_patch(found.spec if found else {}, wanted),
        }
        path = BUDGETS.path(batch.job.metadata.namespace, action.name)
        try:
            memory.put(await self._api.patch(path, patch, whole=True))
        except RequestError as error:
            _note_gone(memory, action.name, error)
        else:
            batch.memory.reverted.wrote(action, self._clock.now())

    async def delete(self, batch: Batch, action: DeleteBudget) -> None:
        """Delete a budget."""
        memory = batch.memory.budgets
        try:
            await self._api.delete(
                BUDGETS.path(batch.job.metadata.namespace, action.name), action.uid
            )
        except RequestError as error:
            _note_gone(memory, action.name, error)
        else:
            memory.found[action.name] = None


def _note_gone(memory: BudgetMemory, name: str, error: RequestError) -> None:
    """Record that another client has deleted or replaced a budget."""
    if not (error.conflict or error.not_found):
        raise error
    # If another object has this name, creating the budget fails, and the error names the owner.
    memory.found[name] = None
