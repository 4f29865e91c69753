"""Carries a plan's actions out against the apiserver, and takes what came of it into the stores."""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from dijob import names
from dijob.core import refusals
from dijob.core.actions import (
    Action,
    CreateInOrder,
    CreatePod,
    CreateService,
    DeletePod,
    EndPod,
    ForceDeletePod,
    GiveBackPod,
    NudgePod,
    PublishAddresses,
    SetReplicas,
)
from dijob.core.manifests import Options, gang_of, pod_manifest
from dijob.core.manifests import service as service_manifest
from dijob.core.members import Member
from dijob.core.observe import Pod, Refusal, Refused, Service
from dijob.core.published import addresses_patch
from dijob.core.raw import END_SECONDS, namesake, pod, service
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.memory import Memory
from dijob.shell.store import Store
from dijob.spec.model import DIJob

log = logging.getLogger(__name__)


class Actor:
    """The hands of the operator."""

    def __init__(self, api: Api, pods: Store[Pod], services: Store[Service], options: Options) -> None:
        self._api = api
        self._pods = pods
        self._services = services
        self._options = options

    async def carry_out(self, job: DIJob, actions: tuple[Action, ...], memory: Memory) -> Json | None:
        """Do all of them, concurrently (api.py bounds the writes). Gives the job's new body where the job changed.

        A refused creation becomes a refusal in `memory`; anything else that fails is raised once all are through.
        """
        group = _Group(job, memory)
        results = await asyncio.gather(*(self._one(group, action) for action in actions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return next((result for result in results if isinstance(result, dict)), None)

    def _one(self, group: "_Group", action: Action) -> Awaitable[Json | None]:
        match action:
            case SetReplicas():
                return self._set_replicas(group.job, action.replicas)
            case CreatePod():
                return self._create_pod(group, action.member)
            case CreateInOrder():
                return self._create_in_order(group, action)
            case CreateService():
                return self._create_service(group)
            case PublishAddresses():
                return self._publish(group.job, action)
            case DeletePod():
                return self._delete(group.job, action)
            case NudgePod():
                return self._nudge(group, action)
            case GiveBackPod():
                group.memory.given_back.add(action.name)
                return self._delete(group.job, DeletePod(action.name, action.uid))
            case ForceDeletePod():
                return self._force(group.job, action)
            case EndPod():
                return self._end(group.job, action)

    async def _set_replicas(self, job: DIJob, replicas: int) -> Json | None:
        meta = job.metadata
        path = f"/apis/{names.API_VERSION}/namespaces/{meta.namespace}/{names.PLURAL}/{meta.name}"
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "spec": {"replicas": replicas},
        }
        try:
            return await self._api.patch(path, patch, whole=True)
        except ApiError as error:
            if error.conflict or error.gone:
                return None  # somebody was faster; the watch brings it
            raise

    async def _create_in_order(self, group: "_Group", action: CreateInOrder) -> None:
        for member in action.members:
            await self._create_pod(group, member)
            if f"pod/{member.name}" in group.memory.refusals:
                return

    async def _create_pod(self, group: "_Group", member: Member) -> None:
        key = f"pod/{member.name}"
        if group.refusal is not None:
            group.memory.refusals[key] = group.refusal  # the same answer for all: ask with one, not with a thousand
            return
        manifest = pod_manifest(group.job, member, self._options)
        body = await self._create(group, key, manifest)
        if body is not None:
            group.memory.created(member.name, _now())
            self._pods.put(pod(body))

    async def _create_service(self, group: "_Group") -> None:
        body = await self._create(group, f"service/{group.job.metadata.name}", service_manifest(group.job))
        if body is not None:
            self._services.put(service(body))

    async def _create(self, group: "_Group", key: str, manifest: Json) -> Json | None:
        """Create one child. Gives its body, also when it was there already and is ours; None: refused, and noted."""
        kind, name = key.split("/")
        meta, noted = group.job.metadata, group.memory.refusals
        path = f"/api/v1/namespaces/{meta.namespace}/{kind}s"
        try:
            body = await self._api.create(path, manifest)
        except ApiError as error:
            if error.conflict:
                return await self._adopt(group, key, f"{path}/{name}", manifest["metadata"]["labels"])
            if error.status == 404:
                return None  # the namespace is going, and the job with it
            noted[key] = refusals.rejected(error.status, error.message, noted.get(key), _now())
            group.refused(kind, noted[key])
            return None
        noted.pop(key, None)
        return body

    async def _adopt(self, group: "_Group", key: str, path: str, labels: Mapping[str, str]) -> Json | None:
        """AlreadyExists: ours, which the watch has not shown yet (or does not show any more, because somebody took our
        labels off: they are put back); or a namesake to wait for; or somebody else's."""
        try:
            body = await self._api.get(path)
        except ApiError as error:
            if error.gone:
                return None
            raise
        why = namesake(body, group.job.metadata.name, group.job.metadata.uid)
        if why is None:
            group.memory.refusals.pop(key, None)
            meta = body["metadata"]
            # A service needs no label to do its work, and there is no right to patch it.
            if body["kind"] != "Pod" or labels.items() <= (meta.get("labels") or {}).items():
                return body
            return await self._api.patch(path, {"metadata": {"uid": meta["uid"], "labels": labels}}, whole=True)
        group.memory.refusals[key] = refusals.name_in_use(why, key.replace("/", " "), _now())
        return None

    async def _publish(self, job: DIJob, action: PublishAddresses) -> None:
        patch = addresses_patch(gang_of(job), action)
        answer = await self._to_pod(job, action.name, self._api.patch(_pod_path(job, action.name), patch))
        news = {"told_ip": action.ip, **({"renew_from": action.epoch} if action.renew else {})}
        self._update(job, action.uid, answer, ips=action.ips, epoch=action.epoch, **news)

    async def _nudge(self, group: "_Group", action: NudgePod) -> None:
        meta = group.job.metadata
        log.warning("%s/%s: list %d has no effect in %s: nudged", meta.namespace, meta.name, action.epoch, action.name)
        patch = {"metadata": {"uid": action.uid, "annotations": {names.ANNOTATION_NUDGED: action.at}}}
        group.memory.nudged[action.uid, action.epoch] = _now()
        await self._to_pod(group.job, action.name, self._api.patch(_pod_path(group.job, action.name), patch))

    async def _delete(self, job: DIJob, action: DeletePod) -> None:
        if await self._to_pod(job, action.name, self._api.delete(_pod_path(job, action.name), action.uid)) is not None:
            self._update(job, action.uid, {}, deleting=True)

    async def _force(self, job: DIJob, action: ForceDeletePod) -> None:
        meta, call = job.metadata, self._api.delete(_pod_path(job, action.name), action.uid, force=True)
        log.warning("%s/%s: pod %s is deleted by force: its node is lost", meta.namespace, meta.name, action.name)
        if await self._to_pod(job, action.name, call) is not None:
            self._pods.drop(action.uid)

    async def _end(self, job: DIJob, action: EndPod) -> None:
        patch = {"metadata": {"uid": action.uid}, "spec": {"activeDeadlineSeconds": END_SECONDS}}
        answer = await self._to_pod(job, action.name, self._api.patch(_pod_path(job, action.name), patch))
        self._update(job, action.uid, answer, ending_soon=True)

    async def _to_pod(self, job: DIJob, name: str, call: Awaitable[Json | None]) -> Json | None:
        """A call about one pod; None when that pod is gone (404) or another one has its name (409 by its uid)."""
        try:
            return await call or {}
        except ApiError as error:
            if not (error.gone or error.conflict):
                raise
            for view in self._pods.of(job.metadata.uid):
                if view.name == name and error.gone:
                    self._pods.drop(view.uid)
            return None

    def _update(self, job: DIJob, uid: str, answer: Json | None, **fields: Any) -> None:
        """Enter into the store what our own write has just made of a pod."""
        view = next((p for p in self._pods.of(job.metadata.uid) if p.uid == uid), None)
        if view is not None and answer is not None:
            version = (answer.get("metadata") or {}).get("resourceVersion", view.version)
            self._pods.put(replace(view, version=version, **fields))


class _Group:
    """The creations of one pass: when the apiserver refuses one for a reason that holds for all, the rest is spared."""

    def __init__(self, job: DIJob, memory: Memory) -> None:
        self.job = job
        self.memory = memory
        self.refusal: Refusal | None = None

    def refused(self, kind: str, refusal: Refusal) -> None:
        if kind == "pod" and refusal.why is not Refused.TAKEN:
            self.refusal = refusal


def _pod_path(job: DIJob, name: str) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/pods/{name}"


def _now() -> datetime:
    return datetime.now(UTC)
