"""Reconciles one job: observe, plan, act, write the status.

This module is the only caller of the plan. The order of the steps matters. The actions are executed
first, and then the status that results from them is written. No action relies on a status that is
not stored yet. So the operator can be killed between any two requests, and the next process
continues from the objects alone.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from dijob import names
from dijob.api.managers import other_manager
from dijob.api.model import DIJob, Metadata
from dijob.api.problems import SpecError
from dijob.controller.cache.children import Children
from dijob.controller.cache.jobs import Jobs, version_key
from dijob.controller.channel.launchers import Launchers
from dijob.controller.observe.budget_reader import BudgetReader
from dijob.controller.observe.delivery import LauncherDelivery
from dijob.controller.observe.engine_reader import EngineReader
from dijob.controller.observe.event_reader import EventReader
from dijob.controller.observe.foreign_pods import ForeignPods
from dijob.controller.observe.memory import JobMemory, Memories
from dijob.controller.observe.observer import Observer
from dijob.controller.observe.queue_reader import QueueReader
from dijob.controller.queue.quarantine import Quarantine
from dijob.controller.queue.workqueue import Key, KnownError
from dijob.controller.write.actor import Actor
from dijob.controller.write.manager_event import report_manager
from dijob.controller.write.outcome import PlanOutcome
from dijob.controller.write.progress_writer import ProgressWriter
from dijob.controller.write.recorder import Recorder
from dijob.controller.write.status_writer import StatusWriter
from dijob.core.actions import Action, DeleteJob, PodAction
from dijob.core.decide.context import build_context
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.members import gang_of
from dijob.core.membership.address_list import unaccounted_ranks
from dijob.core.observed.ranked import by_rank
from dijob.core.observed.views import Observed
from dijob.core.options import Options
from dijob.core.plan import Plan, plan_from
from dijob.core.report import conditions
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import JOBS
from dijob.process.clock import StepClock, yield_to_others

log = logging.getLogger(__name__)


class Reconciler:
    """Reconciles jobs. The queue never runs two reconciliations of one job at the same time."""

    def __init__(self, api: Api, children: Children, options: Options) -> None:
        self._memories = Memories()
        self._clock = clock = StepClock(api.clock, self._memories.move)
        self.jobs = Jobs(clock)
        self._api = api
        self._children = children
        self.foreign_pods = ForeignPods(api, children, clock)
        self.launchers = Launchers(children.pods, clock, enabled=bool(options.channel))
        self.delivery = LauncherDelivery(options)
        self.progress = ProgressWriter(api, self.jobs, clock)
        self._observer = Observer(
            children, self.launchers, self.foreign_pods, api.throttle, self.delivery
        )
        self._observer.newest_progress = self.progress.newest
        self._actor = Actor(api, children, self.delivery, clock, self.launchers)
        self._recorder = Recorder(api, clock)
        self._events = EventReader(api, clock)
        self._engines = EngineReader(api, options, clock)
        self._queues = QueueReader(api, children.workloads, options, clock)
        self._budgets = BudgetReader(api, clock)
        self.launchers.on_progress = self.progress.receive
        self._status = StatusWriter(api, self.progress, self._recorder, self.forget, clock)
        self.quarantine = Quarantine(names.PLURAL)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one job. Return the seconds until the next reconciliation, or None if the job
        is gone, or another controller manages it.

        After an unexpected exception, the job is quarantined until it or one of its children
        changes.
        """
        body = self.jobs.get(key)
        if body is not None and (manager := other_manager(body)):
            memory = self._memories.of(body["metadata"]["uid"])
            await report_manager(self._recorder, body, manager, memory)
            return None
        try:
            again = await self._pass(key)
        except (RequestError, KnownError):
            raise
        except Exception as error:
            self.quarantine.put("/".join(key), error)
            return await self._report_broken(key, error)
        self.quarantine.clear("/".join(key))
        return again

    async def _pass(self, key: Key) -> float | None:
        body = self.jobs.get(key)
        if body is None:
            return None
        memory = self._memories.of(body["metadata"]["uid"])
        try:
            job = memory.parse(body)
        except SpecError as error:
            return await self._status.write_conditions(
                body, conditions.invalid_facts(error), memory
            )
        if not self._children.listed:
            await self._children.read(self._api, job)
        await self._find_hidden(job, memory)
        pods = self._children.pods.of(job.metadata.owner_key)
        if (wait := self.launchers.seconds_to_wait(pods)) > 0:
            return wait
        await self._events.read(job.metadata, () if job.status.ended else pods, memory.pods)
        await self._engines.read(job, pods, memory.engine, memory.rejections)
        self._queues.admitted(job, memory.queue)
        await self._queues.read(job, pods, memory.queue)
        job = self._queues.admitted(job, memory.queue)
        await self._budgets.read(job, memory.budgets, memory.rejections)
        decided, outcome = await self._plan(job, memory), PlanOutcome()
        asked = decided.actions
        if asked:
            if await self._status.write_first(body, job, decided, memory):
                return 0.0
            if not await self._as_known(key, job, asked):
                # The job has changed, or another job now has its name, so plan again from the new
                # state.
                return 0.0 if self.jobs.get(key) else None
            outcome = await self._actor.carry_out(job, asked, memory)
            if outcome.body is not None:
                self.jobs.put(outcome.body)
            body = self.jobs.get(key)
            if body is None:
                return None
            job = self._queues.admitted(memory.parse(body), memory.queue)
            # Plan again, so that the status describes the state after the actions.
            decided = await self._plan(job, memory)
        await yield_to_others()
        wait = await self._status.write(
            job.metadata, job.status, decided, self._memories.of(job.metadata.uid)
        )
        if outcome.error is not None:
            raise outcome.error
        if not decided.actions:
            return min(wait, decided.requeue_after, memory.pods.wait(self._clock.now()))
        # The second plan still has actions. An action that was also in the first plan has failed
        # with a conflict, because the object to be written had changed. So the operator pauses
        # before it plans again. The watch event about this change usually arrives during this
        # pause. A new action, such as creating pods after their Service, has become possible
        # through earlier actions, so it must not wait.
        return 0.2 if set(asked) & set(decided.actions) else 0.0

    async def _plan(self, job: DIJob, memory: JobMemory) -> Plan:
        await yield_to_others()
        # There must be no await between these two calls: the observation must match `now`.
        now, observed = self._clock.now(), self._observe(job, memory)
        await yield_to_others()
        context = build_context(job, observed, now)
        await yield_to_others()
        return plan_from(context)

    def has_starting_pods(self, owner: str) -> bool:
        """Whether a pod of a job will soon have an address, or its launcher will soon connect."""
        pods = self._children.pods.of(owner)
        return any(pod.is_starting or self.launchers.awaits(pod) for pod in pods)

    def forget(self, uid: str) -> None:
        """Forget a deleted job. The garbage collector deletes the job's children."""
        if key := self.jobs.key_of(uid):
            self.quarantine.clear("/".join(key))
        self.jobs.pop(uid)
        self.progress.forget(uid)
        self._memories.forget(uid)

    def _observe(self, job: DIJob, memory: JobMemory) -> Observed:
        return self._observer.observe(job, memory, self._clock.now())

    async def _find_hidden(self, job: DIJob, memory: JobMemory) -> None:
        """Look up, by name, the pods that should exist but that no watch shows. Look up each pod
        only once.
        """
        gang = gang_of(job)
        pods, _ = by_rank(self._children.pods.of(job.metadata.owner_key), gang)
        memory.absent -= {pod.name for pod in pods.values()}
        if self._children.listed and not _is_over(job) and not job.paused:
            members = map(gang.member, unaccounted_ranks(gang, pods, job.status))
            # A name in `absent` has already been looked up. The name is removed from `absent`
            # when a watch shows a pod with this name.
            asked = {one.name: one for one in members if one.name not in memory.absent}
            asked |= {n: gang.member(r) for n in memory.unlabelled if (r := gang.rank_of(n)) >= 0}
            await self._actor.creator.find_hidden(job, asked.values(), memory)

    async def _as_known(self, key: Key, job: DIJob, actions: Iterable[Action]) -> bool:
        """Return whether the job still exists in the known version. If that is uncertain, read the
        job from the apiserver.

        Without this read, if a watch missed a deletion, the operator would create pods for a job
        that is gone. If a list lagged behind and showed an older version of the job, the operator
        would delete pods that only the newer version requires.
        """
        if self.jobs.is_certain(key) or not (
            self.jobs.is_old(key) or any(map(_is_destructive, actions))
        ):
            return True
        known = job.metadata
        try:
            body = await self._api.get(JOBS.path(known.namespace, known.name))
        except RequestError as error:
            if not error.not_found:
                raise
            self.forget(known.uid)
            return False
        if body["metadata"]["uid"] != known.uid:
            self.forget(known.uid)
        # The result of `put` does not matter. If a watch has delivered this version meanwhile, the
        # store does not change. But the plan was made from the older version.
        self.jobs.put(body)
        return _is_known(body["metadata"], known)

    async def _report_broken(self, key: Key, error: Exception) -> float:
        """Set the condition of a quarantined job. Return the seconds until the next reconcile."""
        body = self.jobs.get(key)
        if body is None:
            return RESYNC_SECONDS
        memory = self._memories.of(body["metadata"]["uid"])
        try:
            return await self._status.write_conditions(body, conditions.broken_facts(error), memory)
        except (RequestError, KnownError):
            raise
        except Exception as another:  # the status may be what raises the exception
            log.warning("%s/%s: failed to write the status: %r", *key, another)
            return RESYNC_SECONDS


def _is_destructive(action: Action) -> bool:
    """Whether an action changes or deletes an existing object."""
    return isinstance(action, PodAction | DeleteJob)


def _is_known(there: Mapping[str, Any], known: Metadata) -> bool:
    """Whether the metadata from the apiserver (`there`) belongs to the same job and is not newer
    than the known metadata.
    """
    newer = version_key(there["resourceVersion"]) > version_key(known.resource_version)
    return bool(there["uid"] == known.uid and not newer)


def _is_over(job: DIJob) -> bool:
    """Whether the job gets no more pods, because it has ended, is suspended or is being deleted."""
    status = job.status
    return bool(job.metadata.deletion_timestamp or status.suspend_time) or status.ended
