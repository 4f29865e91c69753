"""Patches and deletes individual pods, and updates the store from the responses.

Each write carries the uid and the resourceVersion of the pod. A request from a former leader can
arrive after another replica has taken over (lease.py). The apiserver rejects such a request if the
pod has changed since the request was sent (docs/decisions/028).
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from dijob.api.model import DIJob
from dijob.controller.cache.informer import Informer
from dijob.core.actions import ConfirmEnds
from dijob.core.observed.made import with_labels
from dijob.core.observed.parse import list_copy
from dijob.core.observed.views import Pod
from dijob.core.render.annotations import ends_patch
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import PODS


class PodWrites:
    """Patches and deletes pods of jobs.

    The methods return None if the pod is gone (404). They also return None if the pod has changed,
    or was replaced by another pod with the same name (409, or 422 about the uid). The store then
    has the current pod, and the next reconciliation decides again.
    """

    def __init__(self, api: Api, pods: Informer[Pod]) -> None:
        self._api = api
        self._pods = pods

    async def patch(self, job: DIJob, name: str, patch: Json) -> Json | None:
        """Send a merge patch, whose metadata must contain the pod's uid."""
        meta, path = patch["metadata"], _pod_path(job, name)

        # `whole` is called when the request is sent. The pod may have changed while the write
        # waited for a slot, and an older version would cause a conflict.
        def whole() -> Json:
            return {**patch, "metadata": {**meta, "resourceVersion": self._version(meta["uid"])}}

        return await self._answer(job, name, meta["uid"], self._api.patch(path, whole))

    async def delete(
        self, job: DIJob, name: str, uid: str, grace: int | None = None
    ) -> Json | None:
        """Delete a pod. For `grace`, see Api.delete."""
        path = _pod_path(job, name)
        call = self._api.delete(path, uid, grace=grace, version=lambda: self._version(uid))
        return await self._answer(job, name, uid, call)

    def enter(self, uid: str, response: Json, **fields: Any) -> None:
        """Update the pod in the store from the response to a write, and set `fields` of its view.

        The response is used rather than the request: a webhook may have changed the pod further.
        """
        if (view := self._pods.find(uid)) is not None:
            meta = response.get("metadata") or {}
            fields["version"] = meta.get("resourceVersion", view.version)
            if "labels" in meta:
                job = view.owner.partition("/")[2].partition("/")[0]
                fields["made"] = with_labels(view.made, meta["labels"], job)
            if "annotations" in meta:
                fields["copy"] = list_copy(meta["annotations"])
            self._pods.put(replace(view, **fields))

    async def confirm(self, job: DIJob, action: ConfirmEnds) -> None:
        """Annotate a pod with the number of failures that were counted.

        The store is updated even if a webhook has removed the annotation. Writing the
        annotation again would not help, because the webhook would remove it again. The launcher
        waits for the annotation only for a limited time.
        """
        response = await self.patch(job, action.name, ends_patch(action))
        if response is None:
            return
        self.enter(action.uid, response)
        if (view := self._pods.find(action.uid)) is not None:
            self._pods.put(replace(view, copy=replace(view.copy, ends_counted=action.ends)))

    def _version(self, uid: str) -> str:
        """Return the newest known resourceVersion of a pod. Raises RequestError if the pod is
        gone.
        """
        if (view := self._pods.find(uid)) is None:
            raise RequestError(404, "NotFound", "the pod is gone")
        return view.version

    async def _answer(
        self, job: DIJob, name: str, uid: str, call: Awaitable[Json | None]
    ) -> Json | None:
        try:
            return await call or {}
        except RequestError as error:
            if error.not_found:
                self._pods.drop(uid)
            elif error.conflict:
                await self._read(job, name, uid)
            else:
                raise
            return None

    async def _read(self, job: DIJob, name: str, uid: str) -> None:
        """Read the object that now has the pod's name, and put it into the store."""
        try:
            body = await self._api.get(_pod_path(job, name))
        except RequestError as error:
            if not error.not_found:
                raise
            self._pods.drop(uid)
            return
        if body["metadata"]["uid"] != uid:
            self._pods.drop(uid)
            return
        self._pods.put_body(body)
        # If the pod cannot be parsed, the store keeps the previous view. Update its version anyway,
        # so that the pod can at least be deleted.
        self.enter(uid, body)


def _pod_path(job: DIJob, name: str) -> str:
    return PODS.path(job.metadata.namespace, name)
