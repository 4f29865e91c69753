"""Changes and deletes the objects through which a job asks for nodes: the object of its gang
scheduling engine, and its Kueue Workload. The Creator creates both.
"""

from dijob.controller.cache.workloads import Workloads
from dijob.controller.observe.engine_reader import EngineMemory
from dijob.core.actions import ChangeScheduling, DeleteScheduling, DeleteWorkload, ReportWorkload
from dijob.core.render.scheduling import ENGINES
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import SCHEDULING, WORKLOAD_STATUS, WORKLOADS


class EngineWrites:
    """Writes the engines' objects, and remembers the responses."""

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


class QueueWrites:
    """Writes Workloads, and puts the responses into the store."""

    def __init__(self, api: Api, workloads: Workloads | None) -> None:
        self._api = api
        self._workloads = workloads

    async def write(self, namespace: str, action: ReportWorkload | DeleteWorkload) -> None:
        """Report the state of a job to Kueue, or delete its Workload."""
        if self._workloads is None:
            return
        path = WORKLOADS.path(namespace, action.name)
        try:
            if isinstance(action, DeleteWorkload):
                await self._api.delete(path, action.uid, version=action.version)
                self._workloads.drop(action.uid)
            else:
                # Kueue and the operator change the same list of conditions. Because the patch
                # carries the version, a change that Kueue makes in the meantime causes a conflict,
                # and the operator plans again.
                meta = {"uid": action.uid, "resourceVersion": action.version}
                patch = {"metadata": meta, "status": dict(action.status)}
                subresource = f"{path}/{WORKLOAD_STATUS.plural.partition('/')[2]}"
                body = await self._api.patch(subresource, patch, whole=True)
                self._workloads.put_body(body)
        except RequestError as error:
            if error.not_found:
                self._workloads.drop(action.uid)
            elif not error.conflict:
                raise
