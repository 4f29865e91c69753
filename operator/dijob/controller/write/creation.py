"""Creates the children of jobs, and finds existing children that no watch shows.

The watches select by label. If someone removes the labels of a pod, the watch reports a deletion,
but the pod is still running and its name is taken. Treating this pod as lost would restart its
peers for nothing. So the operator gets the pod by name, and restores the labels
(docs/decisions/015).
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dijob.api.model import DIJob
from dijob.controller.cache.children import Children
from dijob.controller.cache.informer import Informer
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.write.batch import Batch
from dijob.core.actions import (
    AdmittedPods,
    CreateBudget,
    CreateScheduling,
    CreateShared,
    CreateWorkload,
    EngineGang,
)
from dijob.core.members import GangMember
from dijob.core.observed import rejections
from dijob.core.observed.parse import classify_namesake, other_port, owner_in_words, parse_pod
from dijob.core.observed.termination import parse_termination
from dijob.core.observed.views import RejectionCause
from dijob.core.render.budget import budget_manifest
from dijob.core.render.pod import pod_manifest
from dijob.core.render.scheduling import (
    ENGINES,
    NO_MARKS,
    Membership,
    PodMarks,
    engine_of,
    kueue,
    marks_of,
    object_key,
    object_name,
    with_engine,
)
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import BUDGETS, PODS, SCHEDULING, WORKLOADS, ObjectKind, kind_of
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

# The size of the random key of a pod's channel.
KEY_BYTES = 18


class Creator:
    """Creates pods and shared objects. Rejections are noted in the memory of the job."""

    def __init__(
        self, api: Api, children: Children, delivery: LauncherDelivery, clock: Clock
    ) -> None:
        self._delivery = delivery
        self._api = api
        self._children = children
        self._options = delivery.options
        self._clock = clock

    async def find_hidden(
        self, job: DIJob, members: Iterable[GangMember], memory: JobMemory
    ) -> None:
        """Look up, by name, the pods that no watch shows. Restore the labels of pods that belong to
        the job.
        """
        batch = Batch(job, memory)
        await asyncio.gather(*(self._find(batch, member) for member in members))

    async def _find(self, batch: Batch, member: GangMember) -> None:
        """Look up one pod. A RequestError ends the reconciliation: without a response, it is
        unknown whether the pod is lost.
        """
        meta = batch.job.metadata
        path = PODS.path(meta.namespace, member.name)
        try:
            async with batch.permits:
                body = await self._api.get(path)
        except RequestError as error:
            if not error.not_found:
                raise
            self._note_absent(batch, member)
            return
        if classify_namesake(body, meta.name, meta.uid) is not None:
            self._note_absent(batch, member)
            return
        # The pod exists even if its labels cannot be restored. Each reconciliation tries again to
        # restore the labels.
        view = parse_pod(body)
        self._children.pods.put(view)
        batch.memory.unlabelled.add(member.name)
        log.warning("%s: restoring the labels of pod %s", meta.owner_key, member.name)
        engine = engine_of(batch.job, self._options.engine, (view,))
        known = EngineGang(engine, object_name(batch.job), batch.job.spec.gang_minimum)
        marks = self._marks(batch, member, known)
        labels = pod_manifest(batch.job, member, self._options, marks=marks)["metadata"]["labels"]
        self._children.pods.put(parse_pod(await self._relabelled(path, body, labels)))
        batch.memory.unlabelled.discard(member.name)

    async def create_pods(
        self, batch: Batch, members: Iterable[GangMember], group: EngineGang | AdmittedPods | None
    ) -> None:
        """Create pods one after the other, and stop at the first rejection."""
        for member in members:
            async with batch.permits:
                # Another creation was rejected while this one waited for the semaphore.
                if rejection := batch.refusal_of(member.name):
                    batch.memory.rejections[f"pod/{member.name}"] = rejection
                    return
                marks = self._marks(batch, member, group)
                made = await self._create_pod(batch, member, marks)
                batch.answered(member.name, batch.memory.rejections.get(f"pod/{member.name}"))
                if not made:
                    return

    def _marks(
        self, batch: Batch, member: GangMember, group: EngineGang | AdmittedPods | None
    ) -> PodMarks:
        """Return the marks that the job's engine adds to this member's pod, such as labels."""
        pod_set, seen = batch.job.pod_set_of(member.rank), batch.memory.queue.view
        if isinstance(group, AdmittedPods) and seen.workload is not None:
            marks = kueue.pod_marks(batch.job, pod_set, seen.workload, seen.flavors)
            return with_engine(marks, group.engine)
        if not isinstance(group, EngineGang):
            return NO_MARKS
        joined = Membership(batch.job, pod_set, group.name, group.count)
        return marks_of(group.engine, joined, self._options)

    async def _create_pod(self, batch: Batch, member: GangMember, marks: PodMarks) -> bool:
        """Create one pod, and return the same as `_create`. If the API server rejects the pod's
        image volume, create the pod with an init container.
        """
        space, key = batch.job.metadata.namespace, f"pod/{member.name}"
        secret = secrets.token_urlsafe(KEY_BYTES) if self._options.channel else ""
        options = self._delivery.options_in(space)
        manifest = pod_manifest(batch.job, member, options, secret, marks)
        if await self._create(batch, manifest):
            return True
        noted, before = batch.memory.rejections, batch.memory.rejections.get(key)
        if before is None or not self._delivery.may_cause(space, before):
            return False
        manifest = pod_manifest(batch.job, member, self._delivery.fallback(), secret, marks)
        if await self._create(batch, manifest):
            self._delivery.reject(space, before.message)
            return True
        if key in noted:
            # Count both attempts as one, so that the back-off does not grow twice.
            noted[key] = replace(noted[key], attempts=before.attempts, retry_at=before.retry_at)
        return False

    async def create_shared(self, batch: Batch, action: CreateShared) -> None:
        """Create the objects one after the other, and stop at the first rejection."""
        for manifest in action.manifests(batch.job, self._options):
            if manifest["kind"] == PODS.name:
                self._server_marks(batch, action).add_to(manifest)
            if not await self._create(batch, manifest):
                return

    def _server_marks(self, batch: Batch, action: CreateShared) -> PodMarks:
        """Return the marks that the job's queue adds to the pod of the job's Redis server."""
        seen = batch.memory.queue.view
        if action.group is None or seen.workload is None:
            return NO_MARKS
        return kueue.server_marks(batch.job, seen.workload, seen.flavors)

    async def create_scheduling(self, batch: Batch, action: CreateScheduling) -> None:
        """Create the engine's object for the job."""
        row = ENGINES[action.engine]
        manifest = row.manifest(batch.job, action.name, action.count, self._options)
        if not await self._create(batch, manifest, whole=True):
            batch.memory.engine.forget(row.key(action.name))

    async def create_budget(self, batch: Batch, action: CreateBudget) -> None:
        """Create a PodDisruptionBudget."""
        manifest = budget_manifest(batch.job, action.task, action.least)
        await self._create(batch, manifest, whole=True)

    async def create_workload(self, batch: Batch, action: CreateWorkload) -> None:
        """Create the Workload with which the job waits in its queue."""
        job, options = batch.job, self._options
        if action.replaces:
            digest = batch.memory.queue.view.digest
            made = kueue.larger_workload(job, action, digest, options)
        else:
            made = kueue.workload(job, action.priority, options)
        await self._create(batch, made)

    async def _create(self, batch: Batch, manifest: Json, *, whole: bool = False) -> bool:
        """Create one child. Return whether the child exists now and belongs to the job. If not, the
        rejection has been noted, or the namespace is being deleted.
        """
        kind, name = kind_of(manifest), manifest["metadata"]["name"]
        path = kind.path(batch.job.metadata.namespace)
        of_engine = kind in SCHEDULING.values()
        key = (
            object_key(kind.version, kind.name, name)
            if of_engine
            else f"{kind.name.lower()}/{name}"
        )
        noted = batch.memory.rejections
        try:
            # Usually the response has metadata only. The manifest is close enough until the watch
            # delivers the full object with the defaults of the apiserver and its webhooks.
            response = await self._api.create(path, manifest, whole=whole)
            body = response if whole else {**manifest, "metadata": response["metadata"]}
        except RequestError as error:
            if error.status == 404:
                return False  # the namespace is being deleted, and the job with it
            if not error.conflict:
                before, now = noted.get(key), self._clock.now()
                noted[key] = rejections.of_creation(
                    error.status, error.message, before, now, self._clock.spread
                )
                return False
            found = await self._adopt(batch, key, f"{path}/{name}", manifest)
            if found is None:
                return False
            body = found
        noted.pop(key, None)
        batch.memory.created(key.removeprefix("pod/"), self._clock.now())
        if of_engine:
            batch.memory.engine.put(body)
        elif kind is BUDGETS:
            batch.memory.budgets.put(body)
        # The check is `is not None`, because an empty store is falsy.
        if kind.view and (store := self._store_of(kind)) is not None:
            store.put_created(kind.view(body))
        return True

    async def _adopt(self, batch: Batch, key: str, path: str, manifest: Json) -> Json | None:
        """Return the existing object with this name. Return None if the object belongs to someone
        else, has a different port, is gone, or cannot be read.
        """
        noted = batch.memory.rejections
        try:
            return await self._found(batch, key, path, manifest)
        except RequestError as error:
            if not error.not_found:
                before, now = noted.get(key), self._clock.now()
                noted[key] = rejections.of_change(error.status, error.message, before, now)
            return None

    async def _found(self, batch: Batch, key: str, path: str, manifest: Json) -> Json | None:
        """Return the existing object, which no watch has shown, if it belongs to the job.

        The object is new, or its labels were removed. Removed labels are restored. If the object
        belongs to someone else, or is a Service with a different port, note a rejection and return
        None.
        """
        body, labels = await self._api.get(path), manifest["metadata"]["labels"]
        noted, now = batch.memory.rejections, self._clock.now()
        if why := classify_namesake(body, batch.job.metadata.name, batch.job.metadata.uid):
            about = (
                parse_termination(body).reason(now)
                if why is RejectionCause.TERMINATING
                else owner_in_words(body)
            )
            what = key.replace("/", " ")
            noted[key] = rejections.name_in_use(why, what, now, noted.get(key), about)
            return None
        if ports := other_port(body, manifest):
            name = manifest["metadata"]["name"]
            noted[key] = rejections.of_port(name, *ports, now, noted.get(key))
            return None
        noted.pop(key, None)
        present = body["metadata"].get("labels") or {}
        # A Service works without the labels, and the operator has no permission to patch it.
        if body["kind"] not in (PODS.name, WORKLOADS.name) or labels.items() <= present.items():
            return body
        return await self._relabelled(path, body, labels)

    def _relabelled(self, path: str, body: Json, labels: Mapping[str, str]) -> Awaitable[Json]:
        """Restore the labels of this pod (not of another pod with its name), and return it."""
        version = body["metadata"]["resourceVersion"]
        meta = {"uid": body["metadata"]["uid"], "resourceVersion": version, "labels": labels}
        return self._api.patch(path, {"metadata": meta}, whole=True)

    def _store_of(self, kind: ObjectKind) -> Informer[Any] | None:
        """Return the store of a kind; None if the operator does not watch it."""
        of_queue = kind.name == WORKLOADS.name
        return self._children.workloads if of_queue else self._children.stores.get(kind.name)

    def _note_absent(self, batch: Batch, member: GangMember) -> None:
        batch.memory.absent.add(member.name)
        batch.memory.unlabelled.discard(member.name)
        for view in self._children.pods.of(batch.job.metadata.owner_key):
            if view.name == member.name:
                self._children.pods.drop(view.uid)
