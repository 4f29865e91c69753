"""Carries a plan's actions out against the apiserver, and takes what came of it into the stores."""

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.actions import (
    Action,
    CreateBroker,
    CreateInOrder,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    EndPod,
    ForceDeletePod,
    GiveBackPod,
    NudgePod,
    PublishAddresses,
    SetReplicas,
)
from dijob.core.members import Member, gang_of
from dijob.core.observed import refusals
from dijob.core.observed.parse import namesake, pod, service
from dijob.core.observed.views import Pod, Service
from dijob.core.options import Options
from dijob.core.render import redis
from dijob.core.render.annotations import addresses_patch, copied, end_patch
from dijob.core.render.pod import pod_manifest
from dijob.core.render.pod import service as service_manifest
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.group import Group
from dijob.shell.jobs import path_of
from dijob.shell.memory import Memory
from dijob.shell.outcome import Doing, Outcome
from dijob.shell.store import Store

log = logging.getLogger(__name__)

# Where the children of a namespace are created.
RESOURCES = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Service": "/api/v1/namespaces/{}/services",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
}


class Actor:
    """The hands of the operator."""

    def __init__(
        self, api: Api, pods: Store[Pod], services: Store[Service], options: Options, clock: Clock = SYSTEM
    ) -> None:
        self._clock = clock
        self._api = api
        self._pods = pods
        self._services = services
        self._options = options

    async def carry_out(self, job: DIJob, actions: tuple[Action, ...], memory: Memory) -> Outcome:
        """Do all of them, concurrently (api.py bounds the writes). What is refused is noted in `memory`."""
        group = Group(job, memory)
        doing = Doing(memory.refusals, lambda action: self._one(group, action), self._clock)
        return await doing.outcome(actions)

    async def recover(self, job: DIJob, members: Iterable[Member], memory: Memory) -> None:
        """Ask for pods that no watch shows; of those that are there and ours, the labels are put back."""
        group = Group(job, memory)
        await asyncio.gather(*(self._recover(group, member) for member in members))

    async def _recover(self, group: Group, member: Member) -> None:
        """Where the apiserver does not answer, the pass fails, and nothing is called lost."""
        path, meta = _pod_path(group.job, member.name), group.job.metadata
        try:
            async with group.turns:
                body = await self._api.get(path)
        except ApiError as error:
            if not error.gone:
                raise
            self._is_absent(group, member)
            return
        if namesake(body, meta.name, meta.uid) is not None:
            self._is_absent(group, member)
            return
        # It is there, whether or not the labels can be put back: tried again with each pass until they are.
        self._pods.put(pod(body))
        group.memory.unlabelled.add(member.name)
        log.warning("%s: the labels of %s are put back", meta.owner_key, member.name)
        labels = pod_manifest(group.job, member, self._options)["metadata"]["labels"]
        self._pods.put(pod(await self._relabelled(path, body, labels)))
        group.memory.unlabelled.discard(member.name)

    def _relabelled(self, path: str, body: Json, labels: Mapping[str, str]) -> Awaitable[Json]:
        """This very pod, with its labels as we have written them."""
        return self._api.patch(path, {"metadata": {"uid": body["metadata"]["uid"], "labels": labels}}, whole=True)

    def _is_absent(self, group: Group, member: Member) -> None:
        group.memory.absent.add(member.name)
        group.memory.unlabelled.discard(member.name)
        for view in self._pods.of(group.job.metadata.owner_key):
            if view.name == member.name:
                self._pods.drop(view.uid)

    def _one(self, group: Group, action: Action) -> Awaitable[Json | None]:
        match action:
            case SetReplicas():
                return self._set_replicas(group.job, action.replicas)
            case DeleteJob():
                return self._delete_job(group.job)
            case CreatePod() | CreateInOrder() | CreateService() | CreateBroker():
                return self._creation(group, action)
            case PublishAddresses():
                return self._publish(group, action)
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

    def _creation(
        self, group: Group, action: CreatePod | CreateInOrder | CreateService | CreateBroker
    ) -> Awaitable[None]:
        match action:
            case CreatePod():
                return self._create_pods(group, (action.member,))
            case CreateInOrder():
                return self._create_pods(group, action.members)
            case CreateService():
                return self._create_all(group, (service_manifest(group.job),))
            case CreateBroker():
                return self._create_all(group, redis.manifests(group.job, self._options))

    async def _set_replicas(self, job: DIJob, replicas: int) -> Json | None:
        meta = job.metadata
        patch = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "spec": {"replicas": replicas},
        }
        try:
            return await self._api.patch(path_of(meta.namespace, meta.name), patch, whole=True)
        except ApiError as error:
            if error.conflict or error.gone:
                return None  # somebody was faster; the watch brings it
            raise

    async def _delete_job(self, job: DIJob) -> None:
        """Only as we know it: an edit of its time to live must not come too late."""
        meta = job.metadata
        log.info("%s/%s: deleted, ttlSecondsAfterFinished is over", meta.namespace, meta.name)
        try:
            await self._api.delete(path_of(meta.namespace, meta.name), meta.uid, version=meta.resource_version)
        except ApiError as error:
            if not (error.conflict or error.gone):
                raise

    async def _create_pods(self, group: Group, members: Iterable[Member]) -> None:
        """One after the other, and none after one that is refused."""
        for member in members:
            async with group.turns:
                if group.refusal is not None:
                    # The same answer for all.
                    group.memory.refusals[f"pod/{member.name}"] = group.refusal
                    return
                made = await self._create(group, pod_manifest(group.job, member, self._options))
                group.answered(group.memory.refusals.get(f"pod/{member.name}"))
                if not made:
                    return

    async def _create_all(self, group: Group, manifests: Iterable[Json]) -> None:
        """One after the other, and none after one that is refused."""
        for manifest in manifests:
            if not await self._create(group, manifest):
                return

    async def _create(self, group: Group, manifest: Json) -> bool:
        """Create one child, and take it into its store. True: it is there, and ours; False: refused, and noted."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        key, path = f"{kind.lower()}/{name}", RESOURCES[kind].format(group.job.metadata.namespace)
        noted = group.memory.refusals
        try:
            body = await self._api.create(path, manifest)
        except ApiError as error:
            if error.status == 404:
                return False  # the namespace is going, and the job with it
            if not error.conflict:
                noted[key] = refusals.rejected(error.status, error.message, noted.get(key), self._clock.now())
                return False
            found = await self._adopt(group, key, f"{path}/{name}", manifest["metadata"]["labels"])
            if found is None:
                return False
            body = found
        noted.pop(key, None)
        if kind == "Pod":
            group.memory.created(name, self._clock.now())
            self._pods.put(pod(body))
        elif kind == "Service":
            self._services.put(service(body))
        return True

    async def _adopt(self, group: Group, key: str, path: str, labels: Mapping[str, str]) -> Json | None:
        """What has the name already, where it is ours; None: it is not, or it is gone, or cannot be read."""
        noted = group.memory.refusals
        try:
            return await self._found(group, key, path, labels)
        except ApiError as error:
            if not error.gone:
                noted[key] = refusals.of_change(error.status, error.message, noted.get(key), self._clock.now())
            return None

    async def _found(self, group: Group, key: str, path: str, labels: Mapping[str, str]) -> Json | None:
        """AlreadyExists: ours, which the watch has not shown yet (or does not show any more, because somebody took our
        labels off: they are put back); or a namesake to wait for; or somebody else's."""
        body = await self._api.get(path)
        why = namesake(body, group.job.metadata.name, group.job.metadata.uid)
        if why is None:
            group.memory.refusals.pop(key, None)
            meta = body["metadata"]
            # A service needs no label to do its work, and there is no right to patch it.
            if body["kind"] != "Pod" or labels.items() <= (meta.get("labels") or {}).items():
                return body
            return await self._relabelled(path, body, labels)
        noted = group.memory.refusals
        noted[key] = refusals.name_in_use(why, key.replace("/", " "), self._clock.now(), noted.get(key))
        return None

    async def _publish(self, group: Group, action: PublishAddresses) -> None:
        job, gang = group.job, gang_of(group.job)
        patch = addresses_patch(gang, action)
        answer = await self._to_pod(job, action.name, self._api.patch(_pod_path(job, action.name), patch))
        if answer is not None:
            group.memory.given[action.uid] = action.copy.address_list.number
            self._api.throttle.published()
        self._update(job, action.uid, answer, copy=copied(gang, action.copy))

    async def _nudge(self, group: Group, action: NudgePod) -> None:
        if not self._api.throttle.remind():
            return  # other jobs' reminders came first
        meta = group.job.metadata
        log.warning("%s/%s: list %d has no effect in %s: nudged", meta.namespace, meta.name, action.number, action.name)
        patch = {"metadata": {"uid": action.uid, "annotations": {names.ANNOTATION_NUDGED: action.at}}}
        await self._to_pod(group.job, action.name, self._api.patch(_pod_path(group.job, action.name), patch))
        group.memory.nudged[action.uid, action.number] = self._clock.now()

    async def _delete(self, job: DIJob, action: DeletePod) -> None:
        if await self._to_pod(job, action.name, self._api.delete(_pod_path(job, action.name), action.uid)) is not None:
            self._update(job, action.uid, {}, deleting=True)

    async def _force(self, job: DIJob, action: ForceDeletePod) -> None:
        meta, call = job.metadata, self._api.delete(_pod_path(job, action.name), action.uid, force=True)
        log.warning("%s/%s: pod %s is deleted by force: its node is lost", meta.namespace, meta.name, action.name)
        if await self._to_pod(job, action.name, call) is not None:
            self._pods.drop(action.uid)

    async def _end(self, job: DIJob, action: EndPod) -> None:
        patch = end_patch(action.uid)
        answer = await self._to_pod(job, action.name, self._api.patch(_pod_path(job, action.name), patch))
        self._update(job, action.uid, answer, ending_soon=True)

    async def _to_pod(self, job: DIJob, name: str, call: Awaitable[Json | None]) -> Json | None:
        """A call about one pod; None when it is gone (404) or another one has its name (409 or 422, by its uid)."""
        try:
            return await call or {}
        except ApiError as error:
            if not (error.gone or error.conflict):
                raise
            for view in self._pods.of(job.metadata.owner_key):
                if view.name == name and error.gone:
                    self._pods.drop(view.uid)
            return None

    def _update(self, job: DIJob, uid: str, answer: Json | None, **fields: Any) -> None:
        """Enter into the store what our own write has just made of a pod."""
        view = next((p for p in self._pods.of(job.metadata.owner_key) if p.uid == uid), None)
        if view is not None and answer is not None:
            version = (answer.get("metadata") or {}).get("resourceVersion", view.version)
            self._pods.put(replace(view, version=version, **fields))


def _pod_path(job: DIJob, name: str) -> str:
    return f"/api/v1/namespaces/{job.metadata.namespace}/pods/{name}"
