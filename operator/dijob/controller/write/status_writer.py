"""Writes a job's status, at most once per reconciliation, and posts the events that belong to it.

Events are posted after the status has been stored, so that they never report a decision that a
restarted operator would make differently.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dijob import __version__, names
from dijob.api.limits import LARGE_BYTES, TOO_LARGE_MESSAGE, size_of
from dijob.api.model import DIJob, Metadata
from dijob.api.parse import parse_status
from dijob.api.status import Status
from dijob.controller import metrics
from dijob.controller.observe.memory import JobMemory
from dijob.controller.queue.workqueue import KnownError
from dijob.controller.write.progress_writer import ProgressWriter
from dijob.controller.write.recorder import Recorder
from dijob.core import pace
from dijob.core.actions import Event
from dijob.core.decide.changes import STATUS
from dijob.core.decide.requeue import RESYNC_SECONDS
from dijob.core.facts import Fact
from dijob.core.observed.rejections import of_change
from dijob.core.plan import Plan
from dijob.core.report import summary
from dijob.core.report.milestones import find_milestones
from dijob.core.report.stopping import deletion_wait_fact
from dijob.core.report.summary import Pressure
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import JOBS
from dijob.kube.patches import merge_patch
from dijob.process.clock import Clock, yield_to_others

log = logging.getLogger(__name__)
Forget = Callable[[str], None]

# Shortest interval between two non-urgent status writes of a job. When many jobs start, the
# apiserver's CPU is the bottleneck. A small job is already Running when its first interval ends
# (docs/decisions/022). A slow apiserver gets even fewer writes (core/pace.py). But each job gets
# its first status within FIRST_AT_LATEST_SECONDS.
INTERVAL_SECONDS = {Pressure.SOON: 3.0, Pressure.RARELY: 10.0}
FIRST_AT_LATEST_SECONDS = 10.0
# Fields of the status, and parts of fields, that no plan relies on. If the CRD is older and lacks
# them, the operator works without them.
FIGURES = frozenset({"goodput"})
FIGURES_OF_PARTS = {"lastRenewal": frozenset({"lost"})}
# The event reason for a job that is too large for its status to be stored. An event is used,
# because a condition could not be stored either.
TOO_LARGE_REASON = "TooLarge"


class StaleCrdError(KnownError):
    """The apiserver dropped fields of a status, because its CRD is older than the operator.

    The reconciliation stops, since a plan must not rely on a status that is not stored.
    """

    def __init__(self, fields: list[str]) -> None:
        super().__init__(
            f"the CRD in the cluster is older than this operator ({__version__}): the API server"
            f" drops status.{', status.'.join(fields)}. Apply crds/dijob.yaml of this version, or"
            " upgrade the chart with crds.install: true"
        )


class TooLargeError(KnownError):
    """The job and its status together are too large for etcd, so the status cannot be stored."""

    def __init__(self) -> None:
        super().__init__(TOO_LARGE_MESSAGE)


class StatusWriter:
    """Writes status changes, and delays those that are not urgent. `forget` is called when the job
    is gone.
    """

    def __init__(
        self, api: Api, progress: ProgressWriter, recorder: Recorder, forget: Forget, clock: Clock
    ) -> None:
        self._api = api
        self._jobs = progress.jobs
        self._forget = forget
        self._clock = clock
        self._recorder = recorder
        self._progress = progress

    async def write_conditions(self, body: Json, facts: list[Fact], memory: JobMemory) -> float:
        """Write conditions if no plan can be made, for example because the spec is invalid. Return
        the same as `write`.
        """
        meta, now = Metadata.model_validate(body["metadata"]), self._clock.now()
        if meta.deletion_timestamp:
            facts = [*facts, deletion_wait_fact(meta)]
        old = parse_status(body)
        status = summary.apply_facts(old, facts, meta.generation, now)
        decided = Plan(status, events=summary.events(old, status))
        return min(RESYNC_SECONDS, await self.write(meta, old, decided, memory))

    async def write_first(self, body: Json, job: DIJob, decided: Plan, memory: JobMemory) -> bool:
        """Write the first status of a large job before its pods are created. Return False if there
        is nothing to write, or if the job is not large.

        If the job is too large for a status, this write fails and no pods are created. Without a
        status, the operator could not report what the pods are doing. Small jobs get their first
        status after the pods, which saves one write (docs/decisions/022).
        """
        first = not job.status.phase and bool(decided.status.phase)
        if not first or size_of(body) < LARGE_BYTES:
            return False
        await self.write(job.metadata, job.status, replace(decided, write_now=True), memory)
        return True

    async def write(self, meta: Metadata, old: Status, decided: Plan, memory: JobMemory) -> float:
        """Write the status if it has changed.

        Return the seconds until the next reconciliation: 0 after a write, and 0.1 after a conflict.
        If the write was delayed, return the rest of the delay. Otherwise, return RESYNC_SECONDS.
        """
        changes, again = _status_changes(old, decided.status), self._dropped_before(decided, memory)
        if not (changes or again):
            return RESYNC_SECONDS if not memory.dropped else self._until_asked(memory)
        pressure = summary.write_pressure(old, decided.status)
        urgent = again or decided.write_now or pressure is Pressure.AT_ONCE
        if not urgent and (due := self._put_off(pressure, old, memory)) > 0:
            return due
        precondition = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        unfit = _drop_invalid_field(self._jobs.get((meta.namespace, meta.name)) or {})
        reported = self._progress.status_part(meta.uid)
        patch = {"metadata": precondition, "status": changes | again | unfit | reported}
        path = JOBS.path(meta.namespace, meta.name)
        try:
            response = await self._api.patch(f"{path}/status", patch, whole=True)
        except RequestError as error:
            if error.not_found:
                self._forget(meta.uid)
                return RESYNC_SECONDS
            if error.conflict:
                # The job has changed in the meantime. Read the job, so that the next reconciliation
                # does not depend on the watch.
                self._jobs.put(await self._api.get(path))
                return 0.1
            if error.too_large:
                # With this status, the job is too large to be stored. An event is a separate
                # object, so it can be stored.
                await self._recorder.tell(meta, Event(TOO_LARGE_REASON, TOO_LARGE_MESSAGE))
                raise TooLargeError from error
            raise
        self._jobs.put(response)
        self._progress.wrote(meta.uid, reported)
        memory.last_write = self._clock.monotonic()
        kept = parse_status(response)
        metrics.count_milestones(find_milestones(meta, old, kept, self._clock.now()))
        await yield_to_others()
        for event in decided.events:
            log.info("%s/%s: %s: %s", meta.namespace, meta.name, event.reason, event.message)
            await self._recorder.tell(meta, event)
        absent = again.keys() - (response.get("status") or {}).keys()
        lost = _status_changes(kept, decided.status)
        figures = {name for name, change in lost.items() if _is_figure(name, change)}
        self._check_kept(frozenset((lost.keys() | absent) - figures), again, memory)
        # Reconcile again at once, because the next action may depend on the stored status. The
        # watch event about this write triggers nothing, because the store already has this version.
        return 0.0

    def _dropped_before(self, decided: Plan, memory: JobMemory) -> dict[str, Any]:
        """Return the fields that the apiserver dropped earlier, if a retry is due: the CRD may have
        been upgraded since.
        """
        if not memory.dropped or self._until_asked(memory) > 0:
            return {}
        return {
            name: value
            for name, value in _dump_status(decided.status).items()
            if name in memory.dropped
        }

    def _until_asked(self, memory: JobMemory) -> float:
        stale = memory.rejections.get(STATUS)
        return (stale.retry_at - self._clock.now()).total_seconds() if stale else 0.0

    def _check_kept(
        self, lost: frozenset[str], again: Mapping[str, Any], memory: JobMemory
    ) -> None:
        """Note the fields that the apiserver has dropped. Raises StaleCrdError if there are any."""
        memory.dropped = (memory.dropped - again.keys()) | lost
        if lost:
            stale, before = StaleCrdError(sorted(lost)), memory.rejections.get(STATUS)
            memory.rejections[STATUS] = of_change(422, str(stale), before, self._clock.now())
            raise stale
        if not memory.dropped:
            memory.rejections.pop(STATUS, None)

    def _put_off(self, pressure: Pressure, old: Status, memory: JobMemory) -> float:
        """Return how many seconds a non-urgent write must wait; 0 or less if it is due now."""
        quick = INTERVAL_SECONDS[pressure]
        seconds = pace.write_interval(quick, self._api.throttle.latency)
        if not old.phase:
            now = self._clock.now()
            age = (now - (memory.first_seen or now)).total_seconds()
            return min(seconds, FIRST_AT_LATEST_SECONDS) - age
        due = memory.last_write + seconds - self._clock.monotonic()
        # On a slow apiserver (`seconds` is longer than usual), the delayed writes of all jobs share
        # a budget.
        if due > 0 or seconds == quick or self._api.throttle.take_status_write():
            return due
        return seconds


def _drop_invalid_field(body: Mapping[str, Any]) -> dict[str, None]:
    """Return a patch that removes an invalid field from a status. DI-orchestrator has stored an
    empty object there instead of a list. Before Kubernetes 1.33, the apiserver rejects any status
    write while the field is there.
    """
    given = (body.get("status") or {}).get(names.REPORTED)
    return {names.REPORTED: None} if isinstance(given, Mapping) else {}


def _is_figure(name: str, change: Any) -> bool:
    """Whether a change to a status field affects only values that no plan relies on."""
    parts = FIGURES_OF_PARTS.get(name)
    only_parts = parts is not None and isinstance(change, Mapping) and change.keys() <= parts
    return name in FIGURES or only_parts


def _status_changes(old: Status, new: Status) -> dict[str, Any]:
    """Return the merge patch from one status to the other."""
    return merge_patch(_dump_status(old), _dump_status(new))


def _dump_status(status: Status) -> dict[str, Any]:
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)
