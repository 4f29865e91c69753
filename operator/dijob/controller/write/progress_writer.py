"""Keeps the newest progress that the launchers of each job have reported, and writes it to the
job's status.

Programs report often. For each write, the API server must store the whole job and send an event to
all of its watchers. So a job's progress is written only if it has changed, and at most every
INTERVAL_SECONDS. The writes of all jobs share one rate limit (docs/decisions/062). Status writes
that the operator makes for other reasons also include the newest progress.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from dijob.api.model import Metadata
from dijob.api.parse import parse_status
from dijob.api.reported import Progress, count_repeated, in_words
from dijob.api.status import format_time
from dijob.controller.cache.jobs import Jobs
from dijob.controller.cache.stored_progress import read_figures, read_progress
from dijob.core import pace
from dijob.core.observed.progress import JobProgress, ProgressReport
from dijob.core.report.time_spent import has_restarted_since
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import JOBS
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

# The shortest time between two writes of one job's progress. A process passes its values to its
# launcher after 1 s. The launcher sends them to the operator after 3 s plus a tick of 1 s. So a
# value in a status is at most 15 s old.
INTERVAL_SECONDS = 10.0
LOOK_SECONDS = 0.5
# The largest number of jobs whose progress is written in one round. There are two rounds per
# second, so all jobs together cause at most 20 writes per second. If more than 200 jobs report, the
# progress of each job is written less often.
MOST_AT_ONCE = 10


@dataclass
class _Known:
    """The newest values of one job.

    `fresh` is true if the values have not been written yet. `due` is the earliest time of the next
    write, in monotonic seconds.
    """

    values: dict[str, Any] = field(default_factory=dict)
    time: str = ""
    fresh: bool = False
    due: float = 0.0


class ProgressWriter:
    """The progress of all jobs, keyed by uid."""

    def __init__(self, api: Api, jobs: Jobs, clock: Clock) -> None:
        self._api = api
        self.jobs = jobs
        self._clock = clock
        self._known: dict[str, _Known] = {}

    def receive(self, owner: str, report: ProgressReport) -> None:
        """Record a report from one of a job's launchers. Each value in it replaces the older value
        of the same name, even if another rank reported that value.
        """
        key = self.jobs.key_of_owner(owner)
        if key is None:
            return
        uid = owner.rpartition("/")[2]
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = _Known(read_figures(self.jobs.get(key)))
        values = {**known.values, **report.values}
        # A launcher sends its values again when it connects to a new operator.
        if values == known.values:
            return
        # A learner that hangs still reports that it is waiting. `time` is the time of the learner's
        # last progress. So such reports do not make an autoscaler add collectors.
        moved = self._clock.now() - timedelta(seconds=report.idle_seconds or 0)
        known.values, known.time, known.fresh = values, format_time(moved), True

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self._known.pop(uid, None)

    def status_part(self, uid: str) -> dict[str, Any]:
        """Return the part of a job's status that holds its unwritten progress; {} if there is none.
        The caller must call `wrote` when the part has been stored.
        """
        known = self._known.get(uid)
        if known is None or not known.fresh:
            return {}
        key = self.jobs.key_of(uid)
        return {"progress": self._dump(known, (self.jobs.get(key) if key else None) or {})}

    def wrote(self, uid: str, part: Mapping[str, Any]) -> None:
        """Record that a part from `status_part` has been stored."""
        known = self._known.get(uid)
        if known is None or "progress" not in part:
            return
        known.due = self._clock.monotonic() + self._interval()
        known.fresh = known.time != part["progress"]["time"] or known.values != _dump_back(part)

    def newest(self, job: Metadata) -> JobProgress:
        """Return the newest progress of a job, without the progress of its ranks. This progress may
        still be unwritten, or may have been written by an earlier operator or by the HTTP server.
        """
        stored = read_progress(self.jobs.get((job.namespace, job.name)))
        known = self._known.get(job.uid)
        if known is None or not known.time or known.time < stored.time:
            return JobProgress(stored.time, stored.iteration)
        return JobProgress(known.time, known.values.get("iteration"))

    async def run(self) -> None:
        """Write progress when it is due, until canceled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.write_due()

    async def write_due(self) -> None:
        """Write the progress of the jobs that have waited longest."""
        now = self._clock.monotonic()
        due = [uid for uid, known in self._known.items() if known.fresh and known.due <= now]
        due.sort(key=lambda uid: self._known[uid].due)
        for uid in due[:MOST_AT_ONCE]:
            try:
                await self._write(uid)
            except Exception:
                # An unexpected error while the progress of one job is written must not stop the
                # operator.
                log.exception("failed to write the progress of the DIJob with the uid %s", uid)
                self._known.pop(uid, None)

    async def _write(self, uid: str) -> None:
        key, part = self.jobs.key_of(uid), self.status_part(uid)
        body = self.jobs.get(key) if key else None
        if key is None or body is None:
            self.forget(uid)
        if key is None or body is None or not part:
            return
        # If this write fails, the progress of other jobs is written before this write is tried
        # again.
        self._known[uid].due = self._clock.monotonic() + self._interval()
        # The response is stored as the known state of the job, and this does not cause a
        # reconciliation. So the response must not contain a change that the watch has not delivered
        # yet. Otherwise, the event about that change would bring nothing new, and the change would
        # not be reconciled.
        precondition = {"uid": uid, "resourceVersion": body["metadata"]["resourceVersion"]}
        patch = {"metadata": precondition, "status": part}
        try:
            response = await self._api.patch(f"{JOBS.path(*key)}/status", patch, whole=True)
        except RequestError as error:
            if error.not_found:
                self.forget(uid)
            elif not error.conflict:  # the watch is about to deliver a newer version
                log.info("%s/%s: will retry writing the progress: %s", *key, error)
            return
        self.jobs.put(response)
        self.wrote(uid, part)

    def _interval(self) -> float:
        return pace.write_interval(INTERVAL_SECONDS, self._api.throttle.latency)

    def _dump(self, known: _Known, body: Json) -> Json:
        old = read_progress(body)
        shown = Progress.model_validate({**known.values, "time": known.time})
        restarted = has_restarted_since(parse_status(body), old.time)
        written = {
            "line": in_words(shown),
            "written": format_time(self._clock.now()),
            "repeated_iterations": count_repeated(old, shown, restarted),
        }
        made = shown.model_copy(update=written)
        return made.model_dump(mode="json", by_alias=True, exclude_none=True)


def _dump_back(part: Mapping[str, Any]) -> dict[str, Any]:
    return read_figures({"status": part})
