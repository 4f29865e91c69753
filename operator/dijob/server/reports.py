"""Reports from a job's processes: their progress, and the objects that they post to .../profilings.
Both are stored in the job's status.

Processes may report as often as they like, but each status write costs the API server a write of
the whole job and wakes every watch. So progress is collected in memory and written rarely. If the
server restarts, unwritten progress is lost, but the next report of the job replaces it.
"""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.parse import parse_status
from dijob.api.reported import MOST_PROFILINGS, Progress, count_repeated, in_words
from dijob.api.status import format_time, parse_time
from dijob.core.report.time_spent import has_restarted_since
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.connection import OperatorRequest
from dijob.kube.kinds import JOBS
from dijob.process.clock import SYSTEM, Clock
from dijob.server import metrics
from dijob.server.callers import JobName
from dijob.server.requests import Limit, Rate, RequestRejection
from dijob.server.sizes import MANAGER, TRIES, Sizes

log = logging.getLogger(__name__)

PROFILING_BYTES: Final = 4096
# The rate of profiling reports from one job is limited, because each report is written
# immediately.
PROFILINGS: Final = Rate(0.1, 5.0)
# The shortest time between two writes of one job's progress.
PROGRESS_SECONDS: Final = 60.0
# The maximum rate of progress writes for all jobs together, shared by all replicas of the server.
WRITES_PER_SECOND: Final = 2.0
LOOK_SECONDS: Final = 0.5
# Bounds the memory for reports that have not been written yet.
MOST_WAITING: Final = 10_000


@dataclass(frozen=True)
class Manner:
    """Options of the reports.

    `replicas` is the number of servers that share WRITES_PER_SECOND. With `by_job`, each job's
    progress is a metric.
    """

    replicas: int = 1
    by_job: bool = False


@dataclass
class PendingReport:
    """A job's progress that has not been written yet. The earliest time to write it is `due` (in
    monotonic seconds).
    """

    job: JobName
    progress: Progress
    due: float


class Reports:
    """Collects reports and writes them to the status of their jobs."""

    def __init__(
        self, api: Api, sizes: Sizes, manner: Manner = Manner(), clock: Clock = SYSTEM
    ) -> None:
        self._api = api
        self._sizes = sizes
        self._by_job = manner.by_job
        self._clock = clock
        self._profilings = Limit(PROFILINGS)
        self._writes = Limit(Rate(WRITES_PER_SECOND / manner.replicas, 1.0))
        self._waiting: dict[str, PendingReport] = {}
        # When the progress of each job may be written again, in monotonic seconds.
        self._next: dict[str, float] = {}

    async def progress(self, job: JobName, report: Progress) -> None:
        """Accept a report. If the report lacks a value, the previous value is kept.

        Raises RequestRejection if the job does not exist, or if too many jobs have unwritten
        reports.
        """
        if self._known(job) is None:
            if len(self._waiting) >= MOST_WAITING:
                raise RequestRejection(
                    429, "too many jobs are reporting progress", PROGRESS_SECONDS
                )
            # Check now whether the job exists. The report may be written a minute later, when it is
            # too late to return an error.
            await self._sizes.read(job)
        now = self._clock.monotonic()
        news = report.model_dump(exclude_none=True) | {"time": format_time(self._clock.now())}
        waiting = self._known(job)
        if waiting is None:
            waiting = PendingReport(job, Progress(), max(now, self._next.get(str(job), now)))
        waiting.progress = waiting.progress.model_copy(update=news)
        self._waiting[str(job)] = waiting
        if self._by_job:
            metrics.set_progress(job.namespace, job.name, waiting.progress, now)

    def _known(self, job: JobName) -> PendingReport | None:
        """Return the unwritten report of this job.

        The name alone is not enough: a job that was deleted and created again has a different uid.
        """
        waiting = self._waiting.get(str(job))
        return waiting if waiting and job.uid in ("", waiting.job.uid) else None

    async def run(self) -> None:
        """Write reports when they are due, until canceled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.write_due()

    async def write_due(self) -> None:
        """Write the reports that are due, starting with the one that has waited longest."""
        now = self._clock.monotonic()
        metrics.forget_silent(now)
        self._next = {name: at for name, at in self._next.items() if at > now}
        while (waiting := self._due(now)) and not self._writes.take("", now):
            name = str(waiting.job)
            del self._waiting[name]
            self._next[name] = now + PROGRESS_SECONDS
            try:
                await self._write_progress(waiting)
            except RequestRejection as refusal:
                log.info("dropped the progress of DIJob %s: %s", name, refusal.message)
            except RequestError as error:
                log.warning("will retry writing the progress of DIJob %s: %s", name, error)
                self._put_back(waiting, now + PROGRESS_SECONDS)
            except Exception:
                # An unexpected error in one job's report must not stop the reports of all others.
                log.exception("failed to write the progress of DIJob %s", name)
                metrics.FAILED_WRITES.inc()
                self._put_back(waiting, now + PROGRESS_SECONDS)

    def _due(self, now: float) -> PendingReport | None:
        """Return the report that has been due for the longest time, or None if none is due."""
        first = min(self._waiting.values(), key=lambda each: each.due, default=None)
        return first if first and first.due <= now else None

    def _put_back(self, waiting: PendingReport, due: float) -> None:
        """Schedule a report again, merged with any report that has arrived in the meantime."""
        newer = self._waiting.setdefault(str(waiting.job), waiting)
        # A person's report has no uid. If one of the two reports has no uid, both are assumed to be
        # about the same job. If their uids differ, the job was deleted and created again under the
        # same name, and the old report is dropped.
        if newer.job == waiting.job or "" in (newer.job.uid, waiting.job.uid):
            since = newer.progress.model_dump(exclude_none=True)
            newer.progress = waiting.progress.model_copy(update=since)
            newer.due = due

    async def _write_progress(self, waiting: PendingReport) -> None:
        body = await self._sizes.read(waiting.job)
        old, now = (body.get("status") or {}).get("progress") or {}, self._clock.now()
        written = parse_time(old.get("written"))
        age = (now - written).total_seconds() if written else PROGRESS_SECONDS
        if 0 <= age < PROGRESS_SECONDS:
            # Another replica of the server wrote this job's progress less than a minute ago.
            self._put_back(waiting, self._clock.monotonic() + PROGRESS_SECONDS - age)
            return
        new = _merge_reports(old, _dump_progress(waiting.progress))
        shown: dict[str, Any] = {"line": in_words(new), "written": format_time(now)}
        restarted = has_restarted_since(parse_status(body), old.get("time", ""))
        known = Progress.model_validate(old)
        shown["repeated_iterations"] = count_repeated(known, new, restarted)
        await self._patch(body, {"progress": _dump_progress(new.model_copy(update=shown))})

    async def profiling(self, job: JobName, pod: str, data: dict[str, Any]) -> None:
        """Append a profiling report to the job's status, which keeps the last MOST_PROFILINGS.

        Raises RequestRejection if the profiling data is too large, if the job posts too often, or
        if the job does not exist.
        """
        if len(json.dumps(data).encode()) > PROFILING_BYTES:
            raise RequestRejection(
                413, f"profiling data must be at most {PROFILING_BYTES} bytes of JSON"
            )
        if wait := self._profilings.take(str(job), self._clock.monotonic()):
            raise RequestRejection(429, f"DIJob {job} posts profiling data too often", wait)
        new = {"pod": pod, "time": format_time(self._clock.now()), "data": data}
        # This code reads the list of profiling reports, extends it and writes it back. If another
        # replica has changed the job in between, the API server rejects the write, because the
        # resourceVersion is outdated. So no report is lost.
        for _ in range(TRIES):
            body = await self._sizes.read(job)
            old = (body.get("status") or {}).get(names.REPORTED) or []
            try:
                await self._patch(body, {names.REPORTED: [*old, new][-MOST_PROFILINGS:]})
            except RequestError as error:
                if error.conflict:
                    continue
                raise
            return
        raise RequestRejection(409, f"other clients keep changing DIJob {job}: try again", 1.0)

    async def _patch(self, body: Json, status: Json) -> None:
        """Write a part of the status, if the job has not changed since it was read."""
        meta = body["metadata"]
        precondition = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        path = f"{JOBS.path(meta['namespace'], meta['name'])}/status"
        patch = {"metadata": precondition, "status": status}
        await self._api.call(OperatorRequest("PATCH", path, patch, query=MANAGER))


def _merge_reports(old: Json, news: Json) -> Progress:
    """Merge two reports. If both reports have a value for the same field, the later report wins.

    The stored report can be the later one, because another replica of the server may have written
    it.
    """
    if str(news.get("time")) < str(old.get("time", "")):
        old, news = news, old
    return Progress.model_validate({**old, **news})


def _dump_progress(progress: Progress) -> Json:
    return progress.model_dump(mode="json", by_alias=True, exclude_none=True)
