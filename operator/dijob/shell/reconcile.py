"""One pass over one job: observe, plan, act, write the status. The only caller of the plan."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from dijob import names
from dijob.api.model import DIJob, Metadata
from dijob.api.problems import SpecError
from dijob.core.actions import Action, DeleteJob, PodAction
from dijob.core.decide.plan import Plan, plan
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.members import gang_of
from dijob.core.membership.address_list import unaccounted
from dijob.core.observed.ranked import by_rank
from dijob.core.observed.views import Observed
from dijob.core.options import Options
from dijob.core.report import conditions
from dijob.shell.actor import Actor
from dijob.shell.api import Api, ApiError
from dijob.shell.aside import Aside
from dijob.shell.children import Children
from dijob.shell.clock import StepClock, yield_to_others
from dijob.shell.event_reader import EventReader
from dijob.shell.jobs import Jobs, order
from dijob.shell.kinds import JOBS
from dijob.shell.memory import Memories, Memory
from dijob.shell.observing import Observer
from dijob.shell.outcome import Outcome
from dijob.shell.recorder import Recorder
from dijob.shell.status_writer import StaleCrdError, StatusWriter
from dijob.shell.strangers import Strangers
from dijob.shell.workqueue import Key

log = logging.getLogger(__name__)


class Reconciler:
    """Brings jobs to what they should be, one pass at a time per job."""

    def __init__(self, api: Api, children: Children, options: Options) -> None:
        self._memories = Memories()
        self._clock = clock = StepClock(api.clock, self._memories.move)
        self.jobs = Jobs(clock)
        self._api = api
        self._children = children
        self.strangers = Strangers(api, children, clock)
        self._observer = Observer(children, self.strangers, api.throttle, options)
        self._actor = Actor(api, children, options, clock)
        self._recorder = Recorder(api, clock)
        self._events = EventReader(api, clock)
        self._status = StatusWriter(api, self.jobs, self._recorder, self.forget, clock)
        self.aside = Aside(names.PLURAL)

    async def reconcile(self, key: Key) -> float | None:
        """One pass. Gives the seconds until the next one, None when the job is gone.

        A job whose pass raises an unexpected exception is set aside until it, or a child, changes.
        """
        try:
            again = await self._pass(key)
        except (ApiError, StaleCrdError):
            raise
        except Exception as error:
            self.aside.put("/".join(key), error)
            return await self._report_broken(key, error)
        self.aside.clear("/".join(key))
        return again

    async def _pass(self, key: Key) -> float | None:
        body = self.jobs.get(key)
        if body is None:
            return None
        memory = self._memories.of(body["metadata"]["uid"])
        try:
            job = memory.parse(body)
        except SpecError as error:
            return await self._status.write_conditions(body, conditions.invalid(error), memory)
        if not self._children.listed:
            await self._children.read(self._api, job)
        await self._find_hidden(job, memory)
        pods = self._children.pods.of(job.metadata.owner_key)
        await self._events.read(job.metadata, () if job.status.ended else pods, memory.news)
        decided, outcome = await self._plan(job, memory), Outcome()
        asked = decided.actions
        if asked:
            if not await self._as_known(key, job, asked):
                # Where it has changed, or another job has its name, the next pass begins at once.
                return 0.0 if self.jobs.get(key) else None
            outcome = await self._actor.carry_out(job, asked, memory)
            if outcome.body is not None:
                self.jobs.put(outcome.body)
            body = self.jobs.get(key)
            if body is None:
                return None
            job = memory.parse(body)
            decided = await self._plan(job, memory)
        await yield_to_others()
        wait = await self._status.write(
            job.metadata, job.status, decided, self._memories.of(job.metadata.uid)
        )
        if outcome.error is not None:
            raise outcome.error
        if not decided.actions:
            return min(wait, decided.requeue_after, memory.news.wait(self._clock.now()))
        # An action that is planned again met a conflict, or a pod that is gone: mostly an event
        # comes first. A step that the others have made possible, as pods after their Service, is
        # done at once.
        return 0.2 if set(asked) & set(decided.actions) else 0.0

    async def _plan(self, job: DIJob, memory: Memory) -> Plan:
        await yield_to_others()
        now, observed = self._clock.now(), self._observe(job, memory)  # at one time
        await yield_to_others()
        return plan(job, observed, now)

    def forget(self, uid: str) -> None:
        """The job has been deleted; the garbage collector takes its children."""
        if key := self.jobs.key_of(uid):
            self.aside.clear("/".join(key))
        self.jobs.pop(uid)
        self._memories.forget(uid)

    def _observe(self, job: DIJob, memory: Memory) -> Observed:
        return self._observer.observe(job, memory, self._clock.now())

    async def _find_hidden(self, job: DIJob, memory: Memory) -> None:
        """Ask by name for pods that should exist and that no watch shows, for each of them once."""
        gang = gang_of(job)
        pods, _ = by_rank(self._children.pods.of(job.metadata.owner_key), gang)
        memory.absent -= {pod.name for pod in pods.values()}
        if self._children.listed and not _is_over(job) and not job.paused:
            members = map(gang.member, unaccounted(gang, pods, job.status))
            asked = {one.name: one for one in members if one.name not in memory.absent}
            asked |= {n: gang.member(r) for n in memory.unlabelled if (r := gang.rank_of(n)) >= 0}
            await self._actor.creator.find_hidden(job, asked.values(), memory)

    async def _as_known(self, key: Key, job: DIJob, actions: Iterable[Action]) -> bool:
        """Whether the job is there and as it is known, asked only where that may be otherwise: a
        watch may have missed its deletion, and after a list that lags behind, pods that were made
        since would be taken away.
        """
        if self.jobs.is_certain(key) or not (self.jobs.is_old(key) or any(map(_harms, actions))):
            return True
        known = job.metadata
        try:
            body = await self._api.get(JOBS.path(known.namespace, known.name))
        except ApiError as error:
            if not error.not_found:
                raise
            self.forget(known.uid)
            return False
        if body["metadata"]["uid"] != known.uid:
            self.forget(known.uid)
        # Whether that is news says nothing: a watch may have shown it meanwhile.
        self.jobs.put(body)
        return _is_known(body["metadata"], known)

    async def _report_broken(self, key: Key, error: Exception) -> float:
        body = self.jobs.get(key)
        if body is None:
            return RESYNC_SECONDS
        memory = self._memories.of(body["metadata"]["uid"])
        try:
            return await self._status.write_conditions(body, conditions.broken(error), memory)
        except (ApiError, StaleCrdError):
            raise
        except Exception as another:  # not even the condition can be written: the log has to do
            log.warning("%s/%s: failed to write the status: %r", *key, another)
            return RESYNC_SECONDS


def _harms(action: Action) -> bool:
    """Whether it is done to something that is there."""
    return isinstance(action, PodAction | DeleteJob)


def _is_known(there: Mapping[str, Any], known: Metadata) -> bool:
    """Whether a job's metadata are those that are known, and no newer ones."""
    newer = order(there["resourceVersion"]) > order(known.resource_version)
    return bool(there["uid"] == known.uid and not newer)


def _is_over(job: DIJob) -> bool:
    """Whether the job needs no pods any more."""
    status = job.status
    return bool(job.metadata.deletion_timestamp or status.suspend_time) or status.ended
