"""What processes report: their progress, in one line of the job's status, and profilings."""

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import Any, Final

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
# The line of a job is written at most so often, and all lines together so many times a second.
PROGRESS_SECONDS: Final = 60.0
WRITES: Final = Rate(2.0, 2.0)
LOOK_SECONDS: Final = 0.5


@dataclass
class Waiting:
    """What is to be written of a job, and not before when (monotonic seconds)."""

    job: JobName
    progress: Progress
    due: float


class Reports:
    """Keeps what is reported until it may be written. `by_job`: also as a metric for each job."""

    def __init__(self, api: Api, sizes: Sizes, by_job: bool = False, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._sizes = sizes
        self._by_job = by_job
        self._clock = clock
        self._profilings = Limit(PROFILINGS)
        self._writes = Limit(WRITES)
        self._waiting: dict[str, Waiting] = {}
        # When the line of a job may be written again.
        self._next: dict[str, float] = {}

    def progress(self, job: JobName, said: Progress) -> None:
        """Take in what a process says; what it does not say now stands as it was."""
        now = self._clock.monotonic()
        news = said.model_dump(exclude_none=True) | {"time": timestamp(self._clock.now())}
        waiting = self._waiting.get(str(job))
        if waiting is None or waiting.job != job:
            waiting = Waiting(job, Progress(), max(now, self._next.get(str(job), now)))
        waiting.progress = waiting.progress.model_copy(update=news)
        self._waiting[str(job)] = waiting
        if self._by_job:
            metrics.tell(job.namespace, job.name, waiting.progress)

    async def run(self) -> None:
        """Write what is due, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.write_due()

    async def write_due(self) -> None:
        """Write the lines that may be written now, the oldest first."""
        now = self._clock.monotonic()
        self._next = {name: at for name, at in self._next.items() if at > now}
        for name, waiting in sorted(self._waiting.items(), key=lambda item: item[1].due):
            if waiting.due > now or self._writes.take("", now):
                return
            del self._waiting[name]
            self._next[name] = now + PROGRESS_SECONDS
            try:
                await self._write_progress(waiting)
            except Refusal as refusal:
                log.info("%s: its progress is not written: %s", name, refusal.message)
            except ApiError as error:
                log.warning("%s: its progress is written later: %s", name, error)
                waiting.due = now + PROGRESS_SECONDS
                self._waiting.setdefault(name, waiting)

    async def _write_progress(self, waiting: Waiting) -> None:
        body = await self._sizes.read(waiting.job)
        old = (body.get("status") or {}).get("progress") or {}
        written = parse_time(old.get("time"))
        age = (self._clock.now() - written).total_seconds() if written else PROGRESS_SECONDS
        if 0 <= age < PROGRESS_SECONDS:
            # Another replica of the server has just done it.
            waiting.due = self._clock.monotonic() + PROGRESS_SECONDS - age
            self._waiting.setdefault(str(waiting.job), waiting)
            return
        new = Progress.model_validate({**old, **_dump(waiting.progress)})
        await self._patch(body, {"progress": _dump(new.model_copy(update={"line": in_words(new)}))})

    async def profiling(self, job: JobName, pod: str, data: dict[str, Any]) -> None:
        """Keep what a process has posted, with the last ones before it."""
        if len(json.dumps(data).encode()) > PROFILING_BYTES:
            raise Refusal(413, f"a profiling must have at most {PROFILING_BYTES} bytes of JSON")
        if wait := self._profilings.take(str(job), self._clock.monotonic()):
            raise Refusal(429, f"the DIJob {job} posts profilings too often", wait)
        new = {"pod": pod, "time": timestamp(self._clock.now()), "data": data}
        for _ in range(TRIES):
            body = await self._sizes.read(job)
            old = (body.get("status") or {}).get("profilings") or []
            try:
                await self._patch(body, {"profilings": [*old, new][-MOST_PROFILINGS:]})
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


def _dump(progress: Progress) -> Json:
    return progress.model_dump(mode="json", by_alias=True, exclude_none=True)
