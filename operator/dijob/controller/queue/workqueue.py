"""The work queue: keys are deduplicated, namespaces take turns, errors cause a back-off.

For each key, at most one reconciliation runs at a time. Namespaces take turns, so that thousands of
jobs in one namespace do not delay a job in another. Slow reconciliations, most of which wait for a
webhook, do not block others.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import Any

from dijob.controller import logs, metrics
from dijob.core.backoff import doubled_wait
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace, name
Work = Callable[[Key], Awaitable[float | None]]

BACKOFF_SECONDS = (0.5, 60.0)
# If a webhook hangs, a reconciliation takes 30 s or more. At most WORKERS_PER_NAMESPACE
# reconciliations run concurrently in one namespace. After SLOW_SECONDS, a reconciliation no longer
# counts towards `workers`, the limit that all namespaces share. It still counts towards the limit
# of its namespace.
WORKERS_PER_NAMESPACE = 16
SLOW_SECONDS = 3.0
# Events about the pods of one job arrive in bursts, and are collected for this long.
BURST_SECONDS = 0.1
# While pods of a job start, more events are certain to follow, so they are collected for longer.
PROGRESS_SECONDS = 1.0
# After a crash of the leader, a standby takes over sooner than this (lease.py). So a new leader can
# assume that the old leader has handled all events that are older than this.
NEWS_SECONDS = 15.0


class KnownError(Exception):
    """An error whose message explains the problem and the remedy. No traceback is logged."""


class WorkQueue:
    """Runs `work(key)` for each key that is added; namespaces take turns.

    `work` returns the seconds after which it must run again, or None if it need not run again. Keys
    that are added in the background wait until `release` is called. At most `workers` calls run
    concurrently, not counting those that have taken longer than SLOW_SECONDS.
    """

    def __init__(self, work: Work, workers: int = 64, clock: Clock = SYSTEM) -> None:
        self._work = work
        self._clock = clock
        self._workers = workers
        self._start: Callable[[Coroutine[Any, Any, None]], object] | None = None
        self._line = _Line(clock)
        self._held: dict[Key, None] | None = {}
        self._running: set[Key] = set()
        self._slow: set[Key] = set()
        self._busy = Counter[str]()
        self._dirty: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, background: bool = False) -> None:
        """Queue a key. With `background`, put it behind all keys that are not in the background.

        The jobs of the initial list are added in the background. Nothing has happened to these
        jobs, and a job that was just created must not wait behind a thousand of them.
        """
        if background and self._held is not None:
            self._held[key] = None
            return
        self._forget_timer(key)
        if key in self._running:
            self._dirty.add(key)
        elif self._line.put(key, background):
            self._begin()

    def add_news(self, key: Key) -> None:
        """Queue a key after BURST_SECONDS, so that one reconciliation handles all events that
        arrive in the meantime.
        """
        self.add_after(key, BURST_SECONDS)

    def add_progress(self, key: Key) -> None:
        """Queue a key after PROGRESS_SECONDS, unless another call queues it sooner."""
        self.add_after(key, PROGRESS_SECONDS)

    def release(self) -> None:
        """Queue the keys that have been added in the background so far."""
        held, self._held = self._held or {}, None
        for key in held:
            self.add(key, background=True)

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key after some seconds, unless another call queues it sooner."""
        loop, timer = asyncio.get_running_loop(), self._timers.get(key)
        if seconds <= 0:
            self.add(key)
        elif key not in self._line and not (timer and timer.when() <= loop.time() + seconds):
            self._forget_timer(key)
            self._timers[key] = loop.call_later(seconds, self.add, key)

    def _forget_timer(self, key: Key) -> None:
        if timer := self._timers.pop(key, None):
            timer.cancel()

    async def run(self) -> None:
        """Run the work until canceled."""
        async with asyncio.TaskGroup() as group:
            self._start = group.create_task
            self._line.take_over()
            metrics.QUEUED.set_function(self._line.__len__)
            metrics.QUEUE_OLDEST.set_function(self._line.oldest)
            try:
                self._begin()
                await asyncio.Event().wait()
            finally:
                self._start = None

    def _begin(self) -> None:
        """Start as many calls as the limits allow."""
        if self._start is None:
            return  # this replica is a standby
        while len(self._running) - len(self._slow) < self._workers and (first := self._next()):
            key, waited = first
            metrics.QUEUE_SECONDS.observe(waited)
            self._running.add(key)
            self._busy[key[0]] += 1
            self._start(self._run(key))

    def _next(self) -> tuple[Key, float] | None:
        full = {
            namespace for namespace, count in self._busy.items() if count >= WORKERS_PER_NAMESPACE
        }
        return self._line.pop(full)

    async def _run(self, key: Key) -> None:
        logs.JOB.set("/".join(key))
        # The task starts a moment after it has been created. This call has not read anything yet,
        # so it also handles a change that was queued between these two moments.
        self._dirty.discard(key)
        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, self._mark_slow, key)
        try:
            again = await self._pass(key)
        finally:
            timer.cancel()
            self._running.discard(key)
            self._slow.discard(key)
            self._busy[key[0]] -= 1
            if not self._busy[key[0]]:
                del self._busy[key[0]]
        # Events that arrived during a failed reconciliation must not bypass its back-off.
        if key in self._failures:
            self._dirty.discard(key)
            self._forget_timer(key)
        if again is not None:
            self.add_after(key, again)
        if key in self._dirty:
            self._dirty.discard(key)
            self.add(key)
        self._begin()

    def _mark_slow(self, key: Key) -> None:
        """Stop counting a call towards `workers`, the limit that all namespaces share.

        The call has taken SLOW_SECONDS. Most likely, it is waiting for a webhook that applies to
        the job's namespace.
        """
        self._slow.add(key)
        self._begin()

    async def _pass(self, key: Key) -> float | None:
        try:
            with metrics.RECONCILE_SECONDS.time():
                again = await self._work(key)
        except Exception as error:
            return self._failed(key, error)
        self._failures.pop(key, None)
        metrics.RECONCILIATIONS.labels("done").inc()
        return again

    def _failed(self, key: Key, error: Exception) -> float:
        metrics.RECONCILIATIONS.labels("failed").inc()
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._clock.spread(doubled_wait(count, BACKOFF_SECONDS))
        # Log the traceback for the first failure only; repeats are one line each.
        log.warning(
            "%s/%s: reconcile failed (%d in a row), retrying in %.1f s: %s",
            *key,
            count,
            delay,
            error,
            exc_info=count == 1 and not isinstance(error, KnownError),
        )
        return delay


class _Line:
    """The queued keys without duplicates, each with the time when it was queued. Background keys
    come last.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns = {False: _Turns(), True: _Turns()}  # by background
        self._background: dict[Key, bool] = {}
        self._since: dict[Key, float] = {}
        self._asked: dict[Key, float] = {}

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, key: Key) -> bool:
        return key in self._since

    def oldest(self) -> float:
        """Return how long the oldest key has waited, in seconds; 0 if the queue is empty."""
        return self._clock.monotonic() - min(self._since.values()) if self._since else 0.0

    def take_over(self) -> None:
        """Prepare the queue of a new leader.

        A standby queues keys too, but does not process them. The previous leader is assumed to have
        handled all keys that were added more than NEWS_SECONDS ago. So these keys move to the
        background. The waiting times of all keys start again at 0, because the keys of a standby
        were not waiting for a turn.
        """
        now = self._clock.monotonic()
        for key in [key for key, at in self._asked.items() if now - at > NEWS_SECONDS]:
            self._turns[False].discard(key)
            self._turns[True].add(key)
            self._background[key] = True
        self._since = dict.fromkeys(self._since, now)

    def put(self, key: Key, background: bool) -> bool:
        """Add a key. Return False if it was already queued with the same or a higher priority."""
        self._asked[key] = self._clock.monotonic()
        if key in self._since and self._background[key] <= background:
            return False
        self._turns[True].discard(key)
        self._turns[background].add(key)
        self._background[key] = background
        self._since.setdefault(key, self._clock.monotonic())
        return True

    def pop(self, full: Container[str]) -> tuple[Key, float] | None:
        """Remove the next key whose namespace is not in `full`. Return this key and its waiting
        time in seconds.
        """
        key = self._turns[False].pop(full) or self._turns[True].pop(full)
        if key is None:
            return None
        del self._background[key], self._asked[key]
        return key, self._clock.monotonic() - self._since.pop(key)


class _Turns:
    """Keys in the order of arrival within each namespace; the namespaces take turns."""

    def __init__(self) -> None:
        self._namespaces: OrderedDict[str, OrderedDict[Key, None]] = OrderedDict()

    def add(self, key: Key) -> None:
        self._namespaces.setdefault(key[0], OrderedDict())[key] = None

    def discard(self, key: Key) -> None:
        if keys := self._namespaces.get(key[0]):
            keys.pop(key, None)
            if not keys:
                del self._namespaces[key[0]]

    def pop(self, full: Container[str]) -> Key | None:
        """Remove and return the next key of a namespace that is not in `full`. The namespace moves
        to the end.
        """
        namespace = next((name for name in self._namespaces if name not in full), None)
        if namespace is None:
            return None
        key = next(iter(self._namespaces[namespace]))
        self._namespaces.move_to_end(namespace)
        self.discard(key)
        return key
