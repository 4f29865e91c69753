"""Changes and deletes the object of a job's engine. The Creator creates it."""

from dijob.controller.observe.engine_reader import EngineMemory
from dijob.core.actions import ChangeScheduling, DeleteScheduling
from dijob.core.render.scheduling import ENGINES
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import SCHEDULING


class EngineWrites:
    """Writes objects of engines, and remembers the responses."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def resize(self, namespace: str, action: ChangeScheduling, memory: EngineMemory) -> None:
        """Set how many ranks the engine places at the same time."""
        row = ENGINES[action.engine]
        path = SCHEDULING[row.full_kind].path(namespace, action.name)
        patch = {"metadata": {"uid": action.uid}, "spec": row.resized(action.count)}
        try:
            memory.put(await self._api.patch(path, patch, whole=True))
        except RequestError as error:
            if not (error.conflict or error.not_found):
                raise
            memory.forget(row.key(action.name))

    async def delete(self, namespace: str, action: DeleteScheduling, memory: EngineMemory) -> None:
        """Delete the object. A finalizer may keep it until its last pod has ended."""
        row = ENGINES[action.engine]
        path = SCHEDULING[row.full_kind].path(namespace, action.name)
        try:
            await self._api.delete(path, action.uid)
        except RequestError as error:
            if not (error.conflict or error.not_found):
                raise
        # The operator does not wait until the object is gone: the next one has another name.
        memory.found[row.key(action.name)] = None
