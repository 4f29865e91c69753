"""Changes of one pod, and what came of them in the store.

Each is about the version of the pod that is known: what an operator still sends which another one
has replaced (lease.py) changes nothing.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from dijob.api.model import DIJob
from dijob.core.actions import ConfirmEnds
from dijob.core.observed.made import relabelled
from dijob.core.observed.parse import list_copy
from dijob.core.observed.views import Pod
from dijob.core.render.annotations import ends_patch
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.informer import Informer
from dijob.shell.kinds import PODS


class PodWrites:
    """Patches and deletes pods of jobs.

    A call gives None where the pod is gone (404), has changed, or another one has its name (409, or
    422 about its uid): the next pass is about what is there.
    """

    def __init__(self, api: Api, pods: Informer[Pod]) -> None:
        self._api = api
        self._pods = pods

    async def patch(self, job: DIJob, name: str, patch: Json) -> Json | None:
        """A merge patch; its metadata has the pod's uid."""
        meta, path = patch["metadata"], _path(job, name)

        def whole() -> Json:
            return {**patch, "metadata": {**meta, "resourceVersion": self._version(meta["uid"])}}

        return await self._answer(job, name, meta["uid"], self._api.patch(path, whole))

    async def delete(
        self, job: DIJob, name: str, uid: str, grace: int | None = None
    ) -> Json | None:
        """Delete a pod. `grace` as in Api.delete."""
        path = _path(job, name)
        call = self._api.delete(path, uid, grace=grace, version=lambda: self._version(uid))
        return await self._answer(job, name, uid, call)

    def enter(self, uid: str, answer: Json, **fields: Any) -> None:
        """Enter into the store what a write has just made of a pod: what the answer has, for a
        webhook may have made another thing of it, and the watch may have shown that before.
        """
        if (view := self._pods.find(uid)) is not None:
            meta = answer.get("metadata") or {}
            fields["version"] = meta.get("resourceVersion", view.version)
            if "labels" in meta:
                job = view.owner.partition("/")[2].partition("/")[0]
                fields["made"] = relabelled(view.made, meta["labels"], job)
            if "annotations" in meta:
                fields["copy"] = list_copy(meta["annotations"])
            self._pods.put(replace(view, **fields))

    async def confirm(self, job: DIJob, action: ConfirmEnds) -> None:
        """Tell a pod how many ends are counted. This is entered also if a webhook has removed the
        annotation: the launcher waits for a bounded time, and another write would be lost too.
        """
        answer = await self.patch(job, action.name, ends_patch(action))
        if answer is None:
            return
        self.enter(action.uid, answer)
        if (view := self._pods.find(action.uid)) is not None:
            self._pods.put(replace(view, copy=replace(view.copy, ends_counted=action.ends)))

    def _version(self, uid: str) -> str:
        """The newest version that is known of a pod."""
        if (view := self._pods.find(uid)) is None:
            raise ApiError(404, "NotFound", "the pod is gone")
        return view.version

    async def _answer(
        self, job: DIJob, name: str, uid: str, call: Awaitable[Json | None]
    ) -> Json | None:
        try:
            return await call or {}
        except ApiError as error:
            if error.not_found:
                self._pods.drop(uid)
            elif error.conflict:
                await self._read(job, name, uid)
            else:
                raise
            return None

    async def _read(self, job: DIJob, name: str, uid: str) -> None:
        """Take in what has the pod's name now."""
        try:
            body = await self._api.get(_path(job, name))
        except ApiError as error:
            if not error.not_found:
                raise
            self._pods.drop(uid)
            return
        if body["metadata"]["uid"] != uid:
            self._pods.drop(uid)
            return
        self._pods.put_body(body)
        # Where it cannot be read, what was known of it stays, and it can still be deleted.
        self.enter(uid, body)


def _path(job: DIJob, name: str) -> str:
    return PODS.path(job.metadata.namespace, name)
