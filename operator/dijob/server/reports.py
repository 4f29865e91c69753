"""What processes report: their progress, in one line of the job's status, and profilings."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from dijob import names
from dijob.api.reported import MOST_PROFILINGS, Progress, in_words
from dijob.api.status import parse_time, timestamp
from dijob.server import metrics
from dijob.server.callers import JobName
from dijob.server.limits import Limit, Rate
from dijob.server.refusal import Refusal
from dijob.server.sizes import MANAGER, TRIES, Sizes
from dijob.shell.api import Api, ApiError, Json
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.connection import Call
from dijob.shell.kinds import JOBS

log = logging.getLogger(__name__)

PROFILING_BYTES: Final = 4096
# Each of them is a write of the whole job.
PROFILINGS: Final = Rate(0.1, 5.0)
# The line of a job is written at most so often, and all lines together so many times a second, by
# all replicas of the server.
PROGRESS_SECONDS: Final = 60.0
WRITES_PER_SECOND: Final = 2.0
LOOK_SECONDS: Final = 0.5
MOST_WAITING: Final = 10_000


@dataclass(frozen=True)
class Manner:
    """`replicas` of the server share what may be written; `by_job`: there is a metric for each job
    with what it reports.
    """

    replicas: int = 1
    by_job: bool = False


@dataclass
class Waiting:
    """What is to be written of a job, and not before when (monotonic seconds)."""

    job: JobName
    progress: Progress
    due: float


class Reports:
    """Keeps what is reported until it may be written."""

    def __init__(
        self, api: Api, sizes: Sizes, manner: Manner = Manner(), clock: Clock = SYSTEM
    ) -> None:
        self._api = api
        self._sizes = sizes
        self._by_job = manner.by_job
        self._clock = clock
        self._profilings = Limit(PROFILINGS)
        self._writes = Limit(Rate(WRITES_PER_SECOND / manner.replicas, 1.0))
        self._waiting: dict[str, Waiting] = {}
        # When the line of a job may be written again.
        self._next: dict[str, float] = {}

    async def progress(self, job: JobName, said: Progress) -> None:
        """Take in what a process says; what it does not say now stands as it was. Refusal where
        there is no such job.
        """
        if self._known(job) is None:
            if len(self._waiting) >= MOST_WAITING:
                raise Refusal(429, "too many jobs report their progress", PROGRESS_SECONDS)
            await self._sizes.read(job)
        now = self._clock.monotonic()
        news = said.model_dump(exclude_none=True) | {"time": timestamp(self._clock.now())}
        waiting = self._known(job)
        if waiting is None:
            waiting = Waiting(job, Progress(), max(now, self._next.get(str(job), now)))
        waiting.progress = waiting.progress.model_copy(update=news)
        self._waiting[str(job)] = waiting
        if self._by_job:
            metrics.tell(job.namespace, job.name, waiting.progress, now)

    def _known(self, job: JobName) -> Waiting | None:
        """What waits to be written of this very job."""
        waiting = self._waiting.get(str(job))
        return waiting if waiting and job.uid in ("", waiting.job.uid) else None

    async def run(self) -> None:
        """Write what is due, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.write_due()

    async def write_due(self) -> None:
        """Write the lines that may be written now, the oldest first."""
        now = self._clock.monotonic()
        metrics.forget_silent(now)
        self._next = {name: at for name, at in self._next.items() if at > now}
        while (waiting := self._due(now)) and not self._writes.take("", now):
            name = str(waiting.job)
            del self._waiting[name]
            self._next[name] = now + PROGRESS_SECONDS
            try:
                await self._write_progress(waiting)
            except Refusal as refusal:
                log.info("%s: its progress is not written: %s", name, refusal.message)
            except ApiError as error:
                log.warning("%s: its progress is written later: %s", name, error)
                self._put_back(waiting, now + PROGRESS_SECONDS)
            except Exception:
                # One job's report must not stop the reports of all others.
                log.exception("%s: its progress could not be written", name)
                metrics.FAILED_WRITES.inc()
                self._put_back(waiting, now + PROGRESS_SECONDS)

    def _due(self, now: float) -> Waiting | None:
        """The report that has been due for the longest time, None if none is due."""
        first = min(self._waiting.values(), key=lambda each: each.due, default=None)
        return first if first and first.due <= now else None

    def _put_back(self, waiting: Waiting, due: float) -> None:
        """Write a report later, with what has been reported since."""
        newer = self._waiting.setdefault(str(waiting.job), waiting)
        # A person's report names no uid. Another uid: the job was created again under its name.
        if newer.job == waiting.job or "" in (newer.job.uid, waiting.job.uid):
            said = newer.progress.model_dump(exclude_none=True)
            newer.progress = waiting.progress.model_copy(update=said)
            newer.due = due

    async def _write_progress(self, waiting: Waiting) -> None:
        body = await self._sizes.read(waiting.job)
        old, now = (body.get("status") or {}).get("progress") or {}, self._clock.now()
        written = parse_time(old.get("written"))
        age = (now - written).total_seconds() if written else PROGRESS_SECONDS
        if 0 <= age < PROGRESS_SECONDS:
            # Another replica of the server has just done it.
            self._put_back(waiting, self._clock.monotonic() + PROGRESS_SECONDS - age)
            return
        new = _newest(old, _dump(waiting.progress))
        shown = {"line": in_words(new), "written": timestamp(now)}
        await self._patch(body, {"progress": _dump(new.model_copy(update=shown))})

    async def profiling(self, job: JobName, pod: str, data: dict[str, Any]) -> None:
        """Keep what a process has posted, with the last ones before it."""
        if len(json.dumps(data).encode()) > PROFILING_BYTES:
            raise Refusal(413, f"a profiling must have at most {PROFILING_BYTES} bytes of JSON")
        if wait := self._profilings.take(str(job), self._clock.monotonic()):
            raise Refusal(429, f"the DIJob {job} posts profilings too often", wait)
        new = {"pod": pod, "time": timestamp(self._clock.now()), "data": data}
        for _ in range(TRIES):
            body = await self._sizes.read(job)
            old = (body.get("status") or {}).get(names.REPORTED) or []
            try:
                await self._patch(body, {names.REPORTED: [*old, new][-MOST_PROFILINGS:]})
            except ApiError as error:
                if error.conflict:
                    continue
                raise
            return
        raise Refusal(409, f"the DIJob {job} is being changed by others: post it again", 1.0)

    async def _patch(self, body: Json, status: Json) -> None:
        """Write a part of the status, in the version that was read."""
        meta = body["metadata"]
        precondition = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        path = f"{JOBS.path(meta['namespace'], meta['name'])}/status"
        patch = {"metadata": precondition, "status": status}
        await self._api.call(Call("PATCH", path, patch, query=MANAGER))


def _newest(old: Json, news: Json) -> Progress:
    """Both in one: what was reported last stands, as another replica may have heard of more since
    this one did.
    """
    if str(news.get("time")) < str(old.get("time", "")):
        old, news = news, old
    return Progress.model_validate({**old, **news})


def _dump(progress: Progress) -> Json:
    return progress.model_dump(mode="json", by_alias=True, exclude_none=True)
