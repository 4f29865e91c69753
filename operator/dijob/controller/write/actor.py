"""Executes the actions of a plan.

The response of each write goes into the stores at once. Otherwise, the next reconciliation would
plan from what the watches have delivered so far, and repeat the write.
"""

import logging
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.controller import metrics
from dijob.controller.cache.children import Children
from dijob.controller.channel.launchers import Launchers
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.memory import JobMemory
from dijob.controller.write.batch import Batch
from dijob.controller.write.budget_writes import BudgetWrites
from dijob.controller.write.creation import Creator
from dijob.controller.write.outcome import Executor, PlanOutcome
from dijob.controller.write.pod_writes import PodWrites
from dijob.controller.write.scheduling_writes import EngineWrites, QueueWrites
from dijob.core.actions import (
    Action,
    AskStack,
    ChangeBudget,
    ChangePolicy,
    ChangeScheduling,
    ConfirmEnds,
    CreateBudget,
    CreateInOrder,
    CreatePod,
    CreateScheduling,
    CreateShared,
    CreateWorkload,
    DeleteBudget,
    DeleteJob,
    DeletePod,
    DeleteScheduling,
    DeleteWorkload,
    EndPod,
    ForceDeletePod,
    OfBudget,
    OfEngine,
    OfPod,
    PublishAddresses,
    ReleasePod,
    RemindPod,
    ReportWorkload,
    SetReplicas,
)
from dijob.core.addresses import NO_LIST
from dijob.core.observed.views import Pod
from dijob.core.render.annotations import addresses_patch, end_patch
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import JOBS, POLICIES
from dijob.kube.patches import merge_patch
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)


class Actor:
    """Sends the requests of a reconciliation."""

    def __init__(
        self,
        api: Api,
        children: Children,
        delivery: LauncherDelivery,
        clock: Clock = SYSTEM,
        launchers: Launchers | None = None,
    ) -> None:
        self._launchers = launchers or Launchers(children.pods, clock)
        self.creator = Creator(api, children, delivery, clock)
        self._api = api
        self._children = children
        self._pods = children.pods
        self._writes = PodWrites(api, children.pods)
        self._engines = EngineWrites(api)
        self._queues = QueueWrites(api, children.workloads)
        self._budgets = BudgetWrites(api, clock)
        self._clock = clock

    async def carry_out(
        self, job: DIJob, actions: tuple[Action, ...], memory: JobMemory
    ) -> PlanOutcome:
        """Execute all actions concurrently; api.py limits the number of concurrent writes.
        Rejections are noted in `memory`.
        """
        batch = Batch(job, memory)
        executor = Executor(memory.rejections, lambda action: self._one(batch, action), self._clock)
        return await executor.outcome(actions)

    def _one(self, batch: Batch, action: Action) -> Awaitable[Json | None]:
        match action:
            case SetReplicas():
                return self._set_replicas(batch, action)
            case DeleteJob():
                return self._delete_job(batch.job)
            case ChangePolicy():
                return self._change_policy(batch, action)
            case CreatePod():
                return self.creator.create_pods(batch, (action.member,), action.group)
            case CreateInOrder():
                return self.creator.create_pods(batch, action.members, action.group)
            case CreateShared():
                return self.creator.create_shared(batch, action)
            case CreateScheduling() | ChangeScheduling() | DeleteScheduling():
                return self._of_engine(batch, action)
            case CreateWorkload():
                return self.creator.create_workload(batch, action)
            case ReportWorkload() | DeleteWorkload():
                return self._queues.write(batch.job.metadata.namespace, action)
            case CreateBudget() | DeleteBudget():
                return self._of_budget(batch, action)
            case _:
                return self._of_pod(batch, action)

    def _of_engine(self, batch: Batch, action: OfEngine) -> Awaitable[Json | None]:
        space, memory = batch.job.metadata.namespace, batch.memory.engine
        match action:
            case CreateScheduling():
                return self.creator.create_scheduling(batch, action)
            case ChangeScheduling():
                return self._engines.resize(space, action, memory)
            case DeleteScheduling():
                return self._engines.delete(space, action, memory)

    def _of_budget(self, batch: Batch, action: OfBudget) -> Awaitable[Json | None]:
        match action:
            # ChangeBudget is a subclass of CreateBudget, so it must be matched first.
            case ChangeBudget():
                return self._budgets.change(batch, action)
            case CreateBudget():
                return self.creator.create_budget(batch, action)
            case DeleteBudget():
                return self._budgets.delete(batch, action)

    def _of_pod(self, batch: Batch, action: OfPod) -> Awaitable[Json | None]:
        match action:
            case PublishAddresses():
                return self._publish(batch, action)
            case ReleasePod():
                return self._release(batch, action)
            case DeletePod():
                return self._delete(batch.job, action)
            case RemindPod():
                return self._remind(batch, action)
            case ConfirmEnds():
                return self._confirm(batch, action)
            case AskStack():
                return self._ask_stack(action)
            case ForceDeletePod():
                return self._force(batch.job, action)
            case EndPod():
                return self._end(batch, action)

    async def _set_replicas(self, batch: Batch, action: SetReplicas) -> Json | None:
        meta = batch.job.metadata
        # The user may scale the job at the same time. Because the patch carries the
        # resourceVersion, a value that was computed from an older spec cannot overwrite the user's
        # value.
        changed: dict[str, Any] = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        if action.record:
            changed["annotations"] = {names.ANNOTATION_LAST_TASK: action.record}
        patch = {"metadata": changed, "spec": {"replicas": action.replicas}}
        try:
            body = await self._api.patch(JOBS.path(meta.namespace, meta.name), patch, whole=True)
        except RequestError as error:
            if error.conflict or error.not_found:
                return None  # the job changed in the meantime; its watch event triggers a reconcile
            raise
        batch.memory.reverted.wrote(action, self._clock.now())
        return body

    async def _delete_job(self, job: DIJob) -> None:
        """Delete the job only if it still has the known version, because a user may just have
        extended ttlSecondsAfterFinished.
        """
        meta = job.metadata
        path = JOBS.path(meta.namespace, meta.name)
        log.info(
            "%s/%s: deleting the job, because ttlSecondsAfterFinished has expired",
            meta.namespace,
            meta.name,
        )
        try:
            await self._api.delete(path, meta.uid, version=meta.resource_version)
        except RequestError as error:
            if not (error.conflict or error.not_found):
                raise

    async def _change_policy(self, batch: Batch, action: ChangePolicy) -> None:
        """Patch the fields of the NetworkPolicy that differ. If the policy is deleted or changed in
        the meantime, its watch event triggers the next reconciliation.
        """
        path = POLICIES.path(batch.job.metadata.namespace, action.name)
        try:
            # The store has only a hash of the spec, but a merge patch must name each field to
            # remove, including fields that another client has added.
            body = await self._api.get(path)
            meta = body["metadata"]
            if meta["uid"] != action.uid:
                return
            if changed := merge_patch(body.get("spec") or {}, action.spec):
                precondition = {key: meta[key] for key in ("uid", "resourceVersion")}
                patch = {"metadata": precondition, "spec": changed}
                body = await self._api.patch(path, patch, whole=True)
                batch.memory.reverted.wrote(action, self._clock.now())
        except RequestError as error:
            if error.conflict or error.not_found:
                return
            raise
        self._children.stores[POLICIES.name].put_body(body)

    async def _publish(self, batch: Batch, action: PublishAddresses) -> None:
        before, patch = self._pods.find(action.uid), addresses_patch(batch.gang, action)
        if before is not None:
            # In a job with tasks, only the gang knows the rank that the label must contain.
            before = replace(before, rank=batch.gang.rank_of(action.name))
        annotations = patch["metadata"]["annotations"]
        if before is not None and not self._needs_annotations(before):
            self._launchers.send(before, annotations)
            batch.memory.reverted.sent_list(action)
            metrics.LISTS.labels("channel").inc()
            return
        response = await self._writes.patch(batch.job, action.name, patch)
        if response is not None:
            # The patch writes labels and annotations. If the labels were wrong before the patch,
            # something reverted the labels; otherwise, something reverted the annotations.
            what = "annotations" if before is None or before.recognized else "labels"
            batch.memory.reverted.wrote_list(action, what, self._clock.now())
            # Reminders are extra writes. So that reminders remain a small part of all writes, their
            # budget grows with the number of published lists.
            self._api.throttle.published()
            metrics.LISTS.labels("annotations").inc()
            self._writes.enter(action.uid, response)
            # If the program must restart with the list, the launcher stops the program as soon as
            # the launcher gets the list. The annotations say that this stop is not a failure, so
            # they are stored before the list is sent.
            if before is not None and before.made.channel_key:
                self._launchers.send(before, annotations)

    def _needs_annotations(self, pod: Pod) -> bool:
        """Whether a peer list must be written to a pod. This is the case if the pod has no channel,
        its launcher is silent, or its annotations or labels need a correction.
        """
        reached = self._launchers.reaches(pod) and pod.recognized
        return not reached or pod.copy.address_list != NO_LIST

    async def _remind(self, batch: Batch, action: RemindPod) -> None:
        # All jobs share the budget for reminders, so other jobs may have used it up since the plan
        # was made.
        if not self._api.throttle.take_reminder():
            return
        meta, name = batch.job.metadata, action.name
        text = "%s/%s: revision %d has not reached pod %s; annotating the pod to sync its kubelet"
        log.warning(text, meta.namespace, meta.name, action.number, name)
        annotations = {names.ANNOTATION_REMINDED: action.at}
        patch = {"metadata": {"uid": action.uid, "annotations": annotations}}
        if await self._writes.patch(batch.job, name, patch) is not None:
            batch.memory.reminded[action.uid, action.number] = self._clock.now()

    async def _delete(self, job: DIJob, action: DeletePod) -> None:
        if await self._writes.delete(job, action.name, action.uid, action.grace) is not None:
            self._writes.enter(action.uid, {}, deleting=True)

    async def _confirm(self, batch: Batch, action: ConfirmEnds) -> None:
        pod = self._pods.find(action.uid)
        if pod is None or not self._launchers.confirm(pod, action.ends):
            await self._writes.confirm(batch.job, action)

    async def _ask_stack(self, action: AskStack) -> None:
        if (pod := self._pods.find(action.uid)) is not None:
            self._launchers.ask_stack(pod)

    async def _release(self, batch: Batch, action: ReleasePod) -> None:
        # The release is noted before the request is sent. Otherwise, if a watch reported the
        # deletion before the response arrived, the pod would be treated as lost.
        batch.memory.release(action.name)
        try:
            response = await self._writes.delete(batch.job, action.name, action.uid, action.grace)
        except RequestError as error:
            if error.status:  # without a response, the pod may have been deleted
                batch.memory.released.discard(action.name)
            raise
        if response is None:
            batch.memory.released.discard(action.name)
        else:
            self._writes.enter(action.uid, {}, deleting=True)

    async def _force(self, job: DIJob, action: ForceDeletePod) -> None:
        meta, name = job.metadata, action.name
        text = "%s/%s: force-deleting pod %s, because its node is lost"
        log.warning(text, meta.namespace, meta.name, name)
        # With a grace period of 0, the apiserver removes the object without waiting for the
        # kubelet.
        if await self._writes.delete(job, name, action.uid, grace=0) is not None:
            self._pods.drop(action.uid)

    async def _end(self, batch: Batch, action: EndPod) -> None:
        response = await self._writes.patch(batch.job, action.name, end_patch(action.uid))
        if response is not None:
            batch.memory.reverted.wrote(action, self._clock.now())
            self._writes.enter(action.uid, response, ending_soon=True)
