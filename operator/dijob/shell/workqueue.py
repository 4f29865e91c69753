"""A keyed queue: one pass per key at a time, duplicates merged, namespaces in turn, back-off after
an error.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import Any

from dijob.core.backoff import doubled
from dijob.shell import logs, metrics
from dijob.shell.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace, name
Work = Callable[[Key], Awaitable[float | None]]

BACKOFF_SECONDS = (0.5, 60.0)
# A pass over a job whose webhook hangs takes 30 s and more. At most WORKERS_PER_NAMESPACE passes of
# one namespace run at once; after SLOW_SECONDS a pass leaves its turn to another namespace.
WORKERS_PER_NAMESPACE = 16
BURST_SECONDS = 0.1
SLOW_SECONDS = 3.0
# An operator that goes without a word is missed for less than this (shell/lease.py).
NEWS_SECONDS = 15.0


class KnownError(Exception):
    """An error whose message says what is wrong and what to do: no traceback is logged."""


class WorkQueue:
    """Runs `work(key)` for every key added, namespace by namespace in turn.

    The result of `work` says after how many seconds to run again; None: not by itself. What is
    added in the background waits for `release`. `workers` is how many passes run at once, those
    over SLOW_SECONDS not counted.
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
        """Ask for a pass over the key as soon as possible; in the background: after all that is no
        background.

        What a new operator finds in its first list is background: nothing has happened to those
        jobs, and a thousand of them must not stand before the one that has just been applied.
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
        """Ask for a pass within BURST_SECONDS: the pods of a job change together, and one pass is
        about all that came meanwhile.
        """
        self.add_after(key, BURST_SECONDS)

    def release(self) -> None:
        """Let the background begin."""
        held, self._held = self._held or {}, None
        for key in held:
            self.add(key, background=True)

    def add_after(self, key: Key, seconds: float) -> None:
        """Ask for a pass later, unless one is asked for sooner."""
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
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._start = group.create_task
            self._line.begin_anew()
            metrics.QUEUED.set_function(self._line.__len__)
            metrics.QUEUE_OLDEST.set_function(self._line.oldest)
            try:
                self._begin()
                await asyncio.Event().wait()
            finally:
                self._start = None

    def _begin(self) -> None:
        """Begin as many passes as may run."""
        if self._start is None:
            return  # another operator acts, and does them
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
        # What was asked for since the pass was begun is in it.
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
        # What came in between is no reason to skip the back-off of a pass that failed.
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
        """It hangs, most likely at a webhook of its namespace, and takes no turn of the others."""
        self._slow.add(key)
        self._begin()

    async def _pass(self, key: Key) -> float | None:
        try:
            with metrics.PASS_SECONDS.time():
                again = await self._work(key)
        except Exception as error:
            return self._failed(key, error)
        self._failures.pop(key, None)
        metrics.PASSES.labels("done").inc()
        return again

    def _failed(self, key: Key, error: Exception) -> float:
        metrics.PASSES.labels("failed").inc()
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = self._clock.spread(doubled(count, BACKOFF_SECONDS))
        # The traceback once: what repeats is one line each.
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
    """The keys that wait, each once, and since when; those in the background last."""

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
        """For how long the one waits that has waited longest, in seconds; 0 for none."""
        return self._clock.monotonic() - min(self._since.values()) if self._since else 0.0

    def begin_anew(self) -> None:
        """They have waited until now for this operator to act, and not for their turn. What was
        asked for in the last seconds comes first: all else the one before has done.
        """
        now = self._clock.monotonic()
        for key in [key for key, at in self._asked.items() if now - at > NEWS_SECONDS]:
            self._turns[False].discard(key)
            self._turns[True].add(key)
            self._background[key] = True
        self._since = dict.fromkeys(self._since, now)

    def put(self, key: Key, background: bool) -> bool:
        """Add one; False where it waits already, in a line as good as that."""
        self._asked[key] = self._clock.monotonic()
        if key in self._since and self._background[key] <= background:
            return False
        self._turns[True].discard(key)
        self._turns[background].add(key)
        self._background[key] = background
        self._since.setdefault(key, self._clock.monotonic())
        return True

    def pop(self, full: Container[str]) -> tuple[Key, float] | None:
        """Take the next key of a namespace that is not full, with the seconds that it has
        waited.
        """
        key = self._turns[False].pop(full) or self._turns[True].pop(full)
        if key is None:
            return None
        del self._background[key], self._asked[key]
        return key, self._clock.monotonic() - self._since.pop(key)


class _Turns:
    """Keys in the order in which they came, one of each namespace in turn."""

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
        """Take the next key of a namespace that is not full; the namespace goes to the end of the
        line.
        """
        namespace = next((name for name in self._namespaces if name not in full), None)
        if namespace is None:
            return None
        key = next(iter(self._namespaces[namespace]))
        self._namespaces.move_to_end(namespace)
        self.discard(key)
        return key
