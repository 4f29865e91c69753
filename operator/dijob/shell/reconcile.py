"""One pass over one job: observe, plan, act, write the status once, tell what changed. The only caller of the plan."""

import asyncio
import logging
from typing import Any

from dijob import names
from dijob.api.model import DIJob, Metadata
from dijob.api.parse import stored
from dijob.api.problems import SpecError
from dijob.api.status import Status
from dijob.core import pace
from dijob.core.decide.plan import Plan, plan
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.members import gang_of
from dijob.core.membership.address_list import unaccounted
from dijob.core.observed.views import Observed, by_rank, to_ask
from dijob.core.options import Options, notes
from dijob.core.report import conditions, summary
from dijob.shell.actor import Actor
from dijob.shell.api import Api, ApiError
from dijob.shell.aside import Aside
from dijob.shell.children import Children
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.jobs import Jobs
from dijob.shell.kinds import EVENTS, JOBS
from dijob.shell.memory import Memories, Memory
from dijob.shell.outcome import Outcome
from dijob.shell.recorder import Recorder
from dijob.shell.workqueue import Key

log = logging.getLogger(__name__)

# What is not urgent (a count, a step on the way) is written at most this often per job: the start of many jobs is
# bound by the apiserver's CPU, and every write of a step on the way makes it longer. Where the apiserver is slow it is
# written more rarely yet (core/pace.py).
STATUS_INTERVAL_SECONDS = 3.0
EVENTS_READ_AT_ONCE = 3


class StaleCrdError(Exception):
    """The apiserver has dropped fields of a status (its CRD is older), so that no plan may rely on them."""

    def __init__(self, fields: list[str]) -> None:
        super().__init__(
            f"the apiserver keeps no status.{', status.'.join(fields)}: the CRD in the cluster is older than this "
            "operator; apply crds/dijob.yaml of this version, or upgrade the chart with crds.install: true"
        )


class Reconciler:
    """Brings jobs to what they should be, one pass at a time per job."""

    def __init__(self, api: Api, children: Children, options: Options, clock: Clock = SYSTEM) -> None:
        self.jobs = Jobs(clock)
        self._clock = clock
        self._api = api
        self._children = children
        self._options = options
        self._memories = Memories()
        self._actor = Actor(api, children, options, clock)
        self._recorder = Recorder(api, clock)
        self.aside = Aside(names.PLURAL)

    async def reconcile(self, key: Key) -> float | None:
        """One pass. Gives the seconds until the next one, None when the job is gone.

        A job whose pass raises an unexpected exception is set aside until it, or what belongs to it, changes.
        """
        try:
            again = await self._pass(key)
        except (ApiError, StaleCrdError):
            raise
        except Exception as error:
            self.aside.put("/".join(key), error)
            return await self._say_broken(key, error)
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
            return await self._say(key, body, conditions.invalid(error))
        if not self._children.listed:
            await self._children.read(self._api, job)
        await self._recover(job, memory)
        await self._read_warnings(job, memory)
        decided, outcome = await self._plan(job, memory), Outcome()
        if decided.actions:
            if not await self._still_there(key, job):
                return 0.0 if self.jobs.get(key) else None  # another job has its name: its own pass begins at once
            outcome = await self._actor.carry_out(job, decided.actions, memory)
            if outcome.body is not None:
                self.jobs.put(outcome.body)
            body = self.jobs.get(key)
            if body is None:
                return None
            job = memory.parse(body)
            decided = await self._plan(job, memory)
        await _breathe()
        wait = await self._write(key, job.metadata, job.status, decided)
        if outcome.error is not None:
            raise outcome.error
        # The actions that are left wait for news (a conflict, a pod that is gone already), which come soon.
        return 0.2 if decided.actions else min(wait, decided.requeue_after)

    async def _plan(self, job: DIJob, memory: Memory) -> Plan:
        await _breathe()
        observed = self._observe(job, memory)
        await _breathe()
        return plan(job, observed, self._clock.now())

    def forget(self, uid: str) -> None:
        """The job has been deleted; the garbage collector takes its children."""
        if key := self.jobs.key_of(uid):
            self.aside.clear("/".join(key))
        self.jobs.pop(uid)
        self._memories.forget(uid)

    def key_of(self, owner: str) -> Key | None:
        """The key of the job that a child names (names.owner_key); None where there is no such job."""
        namespace, _, rest = owner.partition("/")
        name, _, uid = rest.partition("/")
        return (namespace, name) if self.jobs.key_of(uid) == (namespace, name) else None

    def _observe(self, job: DIJob, memory: Memory) -> Observed:
        owner = job.metadata.owner_key
        pods, strangers = by_rank(self._children.pods.of(owner), gang_of(job))
        memory.saw_lists(pods.values(), self._clock.now())
        memory.saw_pods((*pods.values(), *strangers))
        silent = {pod.uid for pod in (*pods.values(), *strangers) if not pod.ip}
        return Observed(
            pods=pods,
            strangers=strangers,
            existing=self._children.existing(owner),
            refusals=dict(memory.refusals),
            creations=dict(memory.creations),
            given_back=frozenset(memory.given_back),
            given=dict(memory.given),
            told=dict(memory.told),
            nudged=dict(memory.nudged),
            latency=self._api.throttle.latency,
            reminders=self._api.throttle.reminders,
            notes=notes(job, self._options),
            warnings={uid: text for uid, text in memory.warnings.items() if uid in silent},
        )

    async def _read_warnings(self, job: DIJob, memory: Memory) -> None:
        """Ask why pods that say nothing get no address (FailedMount, a sandbox that fails): only events know."""
        path = EVENTS.path(job.metadata.namespace)
        now, pods = self._clock.now(), self._children.pods.of(job.metadata.owner_key)
        for pod in to_ask(pods, memory.asked, now)[:EVENTS_READ_AT_ONCE]:
            memory.asked[pod.uid] = now
            try:
                selector = f"involvedObject.uid={pod.uid},type=Warning"
                found = await self._api.get(path, fieldSelector=selector, limit="20")
            except ApiError as error:
                log.warning("%s: events of %s not read: %s", job.metadata.name, pod.name, error)
                return
            items = sorted(found.get("items") or (), key=lambda e: str(e.get("lastTimestamp") or ""))
            if items:
                memory.warnings[pod.uid] = f"{items[-1].get('reason')}: {items[-1].get('message')}"

    async def _recover(self, job: DIJob, memory: Memory) -> None:
        """Ask by name for pods that should exist and that no watch shows, for each of them once."""
        gang = gang_of(job)
        pods, _ = by_rank(self._children.pods.of(job.metadata.owner_key), gang)
        memory.absent -= {pod.name for pod in pods.values()}
        over = job.paused or job.metadata.deletion_timestamp or job.status.suspend_time or summary.ended(job.status)
        if self._children.listed and not over:
            members = map(gang.member, unaccounted(gang, pods, job.status))
            asked = {one.name: one for one in members if one.name not in memory.absent}
            asked |= {name: gang.member(gang.rank_of(name)) for name in memory.unlabelled if gang.rank_of(name) >= 0}
            await self._actor.creator.recover(job, asked.values(), memory)

    async def _still_there(self, key: Key, job: DIJob) -> bool:
        """Whether the job still exists, asked only where what we know is old: if no watch has shown its deletion, its
        pods would be created again for ever."""
        if not self.jobs.is_old(key):
            return True
        uid = job.metadata.uid
        try:
            body = await self._api.get(JOBS.path(job.metadata.namespace, job.metadata.name))
        except ApiError as error:
            if not error.gone:
                raise
            self.forget(uid)
            return False
        if body["metadata"]["uid"] != uid:
            self.forget(uid)
        self.jobs.put(body)
        return bool(body["metadata"]["uid"] == uid)

    async def _say_broken(self, key: Key, error: Exception) -> float:
        body = self.jobs.get(key)
        if body is None:
            return RESYNC_SECONDS
        try:
            return await self._say(key, body, conditions.broken(error))
        except (ApiError, StaleCrdError):
            raise
        except Exception as another:  # not even the condition can be written: the log has to do
            log.warning("%s/%s: its status cannot be written: %r", *key, another)
            return RESYNC_SECONDS

    async def _say(self, key: Key, body: dict[str, Any], facts: list[summary.Fact]) -> float:
        """Write conditions alone. No pod is touched."""
        meta, now = Metadata.model_validate(body["metadata"]), self._clock.now()
        if meta.deletion_timestamp:
            return RESYNC_SECONDS
        old = stored(body)
        status = summary.conclude(old, facts, meta.generation, now)
        told = Plan(status, events=summary.events(old, status))
        return min(RESYNC_SECONDS, await self._write(key, meta, old, told))

    async def _write(self, key: Key, meta: Metadata, old: Status, decided: Plan) -> float:
        """Write the status if it differs. Gives the seconds until what was put off is due (else RESYNC_SECONDS)."""
        changes = _changes(old, decided.status)
        memory = self._memories.of(meta.uid)
        if not changes:
            return RESYNC_SECONDS
        if not (decided.withheld or summary.urgent(old, decided.status)) and (due := self._put_off(memory)) > 0:
            return due
        patch = {"metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version}, "status": changes}
        try:
            answer = await self._api.patch(JOBS.path(meta.namespace, f"{meta.name}/status"), patch, whole=True)
        except ApiError as error:
            if error.gone:
                self.forget(meta.uid)
                return RESYNC_SECONDS
            if error.conflict:
                # Somebody has changed the job meanwhile: the watch brings it, and the next pass sees it.
                self.jobs.put(await self._api.get(JOBS.path(meta.namespace, meta.name)))
                return 0.1
            raise
        self.jobs.put(answer)
        memory.last_write = self._clock.monotonic()
        await _breathe()
        for event in decided.events:
            log.info("%s/%s: %s: %s", meta.namespace, meta.name, event.reason, event.message)
            await self._recorder.tell(meta, event)
        if lost := _changes(stored(answer), decided.status):
            raise StaleCrdError(sorted(lost))
        # What is written may be what the next step waits for, and the watch will not tell us of our own write.
        return 0.0

    def _put_off(self, memory: Memory) -> float:
        """Seconds for which a write that is not urgent is put off; 0 or less: not at all."""
        seconds = pace.interval(STATUS_INTERVAL_SECONDS, self._api.throttle.latency)
        due = memory.last_write + seconds - self._clock.monotonic()
        if due > 0 or seconds == STATUS_INTERVAL_SECONDS or self._api.throttle.step():
            return due
        return seconds


def _changes(old: Status, new: Status) -> dict[str, Any]:
    """The merge patch from one status to the other."""
    was = old.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _merge_patch(was, new.model_dump(mode="json", by_alias=True, exclude_none=True))


def _merge_patch(was: dict[str, Any], becomes: dict[str, Any]) -> dict[str, Any]:
    """RFC 7396: None removes a field. Objects are merged, so what is gone from one is named as well (taskStatus)."""
    patch = dict[str, Any]((name, None) for name in was if name not in becomes)
    for name, value in becomes.items():
        before = was.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            if below := _merge_patch(before, value):
                patch[name] = below
        elif before != value:
            patch[name] = value
    return patch


async def _breathe() -> None:
    """Let the passes of other jobs run: with 1,500 ranks each of the steps around it takes 10 to 20 ms."""
    await asyncio.sleep(0)
