"""Records the jobs that the watches report.

The recorder is level-triggered. It compares each job with the job's record, and repeats a write
until the store has accepted it. So neither a restart of the recorder nor an outage of the store
loses the record of a job that still exists. Repeating a write does no harm, because records are
stored by uid.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dijob import names
from dijob.api.recorded import JobRecord
from dijob.api.status import format_time
from dijob.core.backoff import doubled_wait
from dijob.history import metrics
from dijob.history.record import differs_in_state, make_record, mark_deleted
from dijob.history.store import Change, RecordStore, Retention, StoreError
from dijob.history.tails import ReadTail, TailReader
from dijob.history.views import JobView
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import JOBS
from dijob.process.clock import Clock

log = logging.getLogger(__name__)

# How often the recorder looks for changes, and how many jobs it stores in one transaction.
LOOK_SECONDS: Final = 1.0
AT_ONCE: Final = 100
# If only the progress of a job has changed, its record is written at most this often. If the
# history crashes, at most the points of one such interval are lost.
PROGRESS_SECONDS: Final = 60.0
# The first and the longest pause after a failed write.
RETRY_SECONDS: Final = (1.0, 60.0)
PRUNE_SECONDS: Final = 300.0
PRUNE_BATCH: Final = 1_000


@dataclass
class _KnownJob:
    """What the recorder knows about one job.

    `record` is the newest record, and `stored` is the one that the store has. `logs` are the logs
    that are not stored yet. `urgent` is true if anything other than the progress has changed. If
    only the progress has changed, `due` is the earliest time of the next write (in monotonic
    seconds).
    """

    record: JobRecord
    stored: JobRecord | None = None
    logs: list[ReadTail] = field(default_factory=list)
    urgent: bool = False
    due: float = 0.0

    @property
    def is_new(self) -> bool:
        """Whether anything still has to be stored, urgent or not."""
        return self.record is not self.stored or bool(self.logs)

    def is_due(self, now: float) -> bool:
        """Whether something must be stored now."""
        return self.is_new and (self.urgent or self.due <= now)

    def update(self, record: JobRecord) -> None:
        """Replace the record with a newer one."""
        if record != self.record:
            self.urgent = self.urgent or differs_in_state(self.record, record)
            self.record = record


class JobRecorder:
    """Keeps the records of all jobs in a store."""

    def __init__(
        self, api: Api, store: RecordStore, tails: TailReader, retention: Retention, clock: Clock
    ) -> None:
        self._api = api
        self._store = store
        self._tails = tails
        self._retention = retention
        self._clock = clock
        # Returns the views of all known jobs by uid.
        self.jobs: Callable[[], Mapping[str, JobView]] = dict
        self._known: dict[str, _KnownJob] = {}
        self._acknowledged: set[str] = set()
        self._failures = 0
        self._pruned = float("-inf")
        tails.on_read = self._take_log

    async def begin(self, serves: Callable[[str], bool]) -> None:
        """Read the records of jobs that may still exist, if `serves` accepts their namespace."""
        while True:
            try:
                await asyncio.to_thread(self._store.load)
                records, runs = await asyncio.to_thread(self._store.unfinished)
                break
            except StoreError as error:
                await self._pause(error)
        self._known = {
            one.uid: _KnownJob(one, stored=one) for one in records if serves(one.namespace)
        }
        self._tails.known |= runs

    def saw(self, view: JobView) -> None:
        """Note a job that a list or a watch has reported."""
        known = self._known.get(view.uid)
        try:
            record = make_record(view.body, known.record if known else None, self._now())
        except Exception:
            # An unexpected error in one job must not stop the watch of all others.
            log.exception("%s cannot be recorded", view.owner)
            return
        if known is None:
            self._known[view.uid] = _KnownJob(record, urgent=True)
        else:
            known.update(record)

    def saw_end(self, uid: str) -> None:
        """Note that a job is gone."""
        if known := self._known.get(uid):
            known.update(mark_deleted(known.record, self._now()))

    def _take_log(self, read: ReadTail) -> None:
        if known := self._known.get(read.owner.rpartition("/")[2]):
            known.logs.append(read)
            known.urgent = True

    def close_missing(self, present: Iterable[str]) -> None:
        """Note the deletions that happened while no history was running."""
        for uid in self._known.keys() - set(present):
            self.saw_end(uid)

    async def run(self) -> None:
        """Store what is due, until canceled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                # Old records are deleted first, because the store may be full.
                await self.prune()
                await self.store_due()
            except StoreError as error:
                await self._pause(error)
            else:
                self._failures = 0
            await self.acknowledge()

    async def store_due(self) -> None:
        """Write the records that have changed. Raises StoreError."""
        now = self._clock.monotonic()
        due = [known for known in self._known.values() if known.is_due(now)]
        metrics.UNSTORED.set(len(due))
        for at in range(0, len(due), AT_ONCE):
            await self._write(due[at : at + AT_ONCE])
            metrics.UNSTORED.set(max(0, len(due) - at - AT_ONCE))

    async def _write(self, due: list[_KnownJob]) -> None:
        # The records may change while the thread writes, so remember what it wrote.
        written = [(known, known.record, tuple(known.logs)) for known in due]
        changes = [
            Change(record, tuple((read.tail, read.run) for read in logs))
            for _, record, logs in written
        ]
        await asyncio.to_thread(self._store.put, changes)
        for known, record, logs in written:
            known.stored = record
            known.due = self._clock.monotonic() + PROGRESS_SECONDS
            del known.logs[: len(logs)]
            # If the job changed while its record was being written, the record is written again.
            known.urgent = known.is_new
            owner = names.owner_key(record.namespace, record.name, record.uid)
            if record.deleted and not known.is_new and not self._tails.is_reading(owner):
                self._known.pop(record.uid, None)
                self._acknowledged.discard(record.uid)

    async def acknowledge(self) -> None:
        """Set the annotation on the jobs that have ended and whose records and logs are stored."""
        for uid, view in self.jobs().items():
            known = self._known.get(uid)
            if known is None or uid in self._acknowledged or not view.awaits_record:
                continue
            if self._is_complete(known):
                await self._annotate(view)

    def _is_complete(self, known: _KnownJob) -> bool:
        record = known.record
        owner = names.owner_key(record.namespace, record.name, record.uid)
        return bool(record.ended) and not known.is_new and not self._tails.is_reading(owner)

    async def _annotate(self, view: JobView) -> None:
        meta = view.body["metadata"]
        path = JOBS.path(meta["namespace"], meta["name"])
        annotations = {names.ANNOTATION_RECORDED: view.uid}
        patch: dict[str, Any] = {"metadata": {"uid": view.uid, "annotations": annotations}}
        try:
            await self._api.patch(path, patch)
        except RequestError as error:
            # The job may be gone. Otherwise the next round tries again.
            if not (error.not_found or error.conflict):
                log.info("%s: cannot be marked as recorded: %s", view.owner, error)
                return
        self._acknowledged.add(view.uid)

    async def prune(self) -> None:
        """Delete old records, every few minutes. Raises StoreError."""
        now = self._clock.monotonic()
        if now < self._pruned + PRUNE_SECONDS:
            return
        wanted = self._retention
        deleted = await asyncio.to_thread(self._store.prune, wanted, self._now(), PRUNE_BATCH)
        if deleted:
            log.info("deleted %d old records", len(deleted))
        # A full batch means that there may be more old records.
        self._pruned = now if len(deleted) < PRUNE_BATCH else float("-inf")
        usage = await asyncio.to_thread(self._store.usage)
        metrics.RECORDS.set(usage.records)
        metrics.BYTES.set(usage.used_bytes)

    async def _pause(self, error: StoreError) -> None:
        self._failures += 1
        metrics.FAILED_WRITES.inc()
        # If the store is full, deleting old records may help.
        self._pruned = float("-inf")
        delay = self._clock.spread(doubled_wait(self._failures, RETRY_SECONDS))
        log.warning("the store failed, retrying in %.0f s: %s", delay, error)
        await asyncio.sleep(delay)

    def _now(self) -> str:
        return format_time(self._clock.now())
