"""A keyed queue: one pass per key at a time, duplicates merged, back-off after an error, another look after a while."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable

from dijob.shell import metrics
from dijob.shell.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

Key = tuple[str, str]  # namespace, name
Work = Callable[[Key], Awaitable[float | None]]

BACKOFF_SECONDS = (0.5, 60.0)


class WorkQueue:
    """Runs `work(key)` for every key added.

    The result of `work` says after how many seconds to run again; None: not by itself. What is added in the background
    waits for `release`.
    """

    def __init__(self, work: Work, workers: int = 64, clock: Clock = SYSTEM) -> None:
        self._work = work
        self._clock = clock
        self._workers = workers
        self._ready: asyncio.PriorityQueue[tuple[bool, int, Key]] = asyncio.PriorityQueue()
        self._queued: dict[Key, bool] = {}
        self._held: dict[Key, None] | None = {}
        self._numbers = itertools.count()
        self._running: set[Key] = set()
        self._dirty: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._failures: dict[Key, int] = {}

    def add(self, key: Key, background: bool = False) -> None:
        """Ask for a pass over the key as soon as possible; in the background: after all that is no background.

        What a new operator finds in its first list is background: nothing has happened to those jobs, and a thousand
        of them must not stand before the one that has just been applied.
        """
        if background and self._held is not None:
            self._held[key] = None
            return
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._running:
            self._dirty.add(key)
        elif self._queued.get(key, True) > background or key not in self._queued:
            self._queued[key] = background
            self._ready.put_nowait((background, next(self._numbers), key))
            metrics.QUEUED.set(len(self._queued))

    def release(self) -> None:
        """Let the background begin."""
        held, self._held = self._held or {}, None
        for key in held:
            self.add(key, background=True)

    def add_after(self, key: Key, seconds: float) -> None:
        """Ask for a pass later, unless one is asked for sooner."""
        if seconds <= 0:
            self.add(key)
        elif key not in self._queued:
            if timer := self._timers.pop(key, None):
                timer.cancel()
            self._timers[key] = asyncio.get_running_loop().call_later(seconds, self.add, key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._worker())

    async def _worker(self) -> None:
        while True:
            background, _, key = await self._ready.get()
            if self._queued.get(key) is not background:
                continue  # asked for again meanwhile, and done or waiting in the foreground
            del self._queued[key]
            metrics.QUEUED.set(len(self._queued))
            self._running.add(key)
            try:
                again = await self._pass(key)
            finally:
                self._running.discard(key)
            if again is not None:
                self.add_after(key, again)
            # An event that came in between is no reason to skip the back-off of a pass that failed.
            if key in self._dirty:
                self._dirty.discard(key)
                if key not in self._failures:
                    self.add(key)

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
        first, last = BACKOFF_SECONDS
        delay = self._clock.spread(min(last, first * 2.0 ** min(count - 1, 10)))
        # The traceback once: what repeats is one line each.
        log.warning(
            "%s/%s: pass failed (%d in a row), again in %.1f s: %s", *key, count, delay, error, exc_info=count == 1
        )
        return delay
