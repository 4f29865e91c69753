"""Writes the status of a job's Workload, and deletes the Workload. The Creator creates it."""

from dijob.controller.cache.workloads import Workloads
from dijob.core.actions import DeleteWorkload, ReportWorkload
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import WORKLOAD_STATUS, WORKLOADS


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
