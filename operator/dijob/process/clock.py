"""Clock and randomness, replaceable in tests, and a way to yield to other tasks."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

log = logging.getLogger(__name__)

# If the wall clock moves by more than this relative to the monotonic one, it was set by a person or
# a time server. Smaller differences are drift. They do not matter, because none of the operator's
# waits is accurate to two seconds.
STEP = timedelta(seconds=2)


class Clock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds since an arbitrary time, for durations."""
        return time.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        """Return `seconds`, varied at random by up to the fraction `share` in either direction.
        Without this jitter, tasks that failed at the same time would all retry at the same time.
        """
        return seconds * random.uniform(1 - share, 1 + share)


SYSTEM = Clock()


class StepClock(Clock):
    """Wraps another clock, and calls back if that clock steps.

    If a person or a time server sets that clock, `on_step` is called with the difference, before
    the first new time is returned. The callback must shift all remembered times by this difference.
    Otherwise a clock step of one hour would end a back-off at once, or make it an hour longer.
    """

    def __init__(self, clock: Clock, on_step: Callable[[timedelta], None]) -> None:
        self._clock = clock
        self._on_step = on_step
        self._offset = self._offset_of(clock.now())

    def now(self) -> datetime:
        now = self._clock.now()
        step = self._offset_of(now) - self._offset
        if abs(step) > STEP:
            # Update the offset before the callback, because the callback may read this clock as
            # well.
            log.info("the clock stepped by %+.0f s", step.total_seconds())
            self._offset += step
            self._on_step(step)
        return now

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return self._clock.spread(seconds, share)

    def _offset_of(self, now: datetime) -> datetime:
        """Return the wall-clock time at which the monotonic clock was 0. The result changes only
        when the wall clock steps.
        """
        return now - timedelta(seconds=self._clock.monotonic())


async def yield_to_others() -> None:
    """Let other tasks run. With 1,500 ranks, each step of a reconciliation takes 10 to 20 ms, and
    all jobs and the liveness probe share this thread.
    """
    await asyncio.sleep(0)
