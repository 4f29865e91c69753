"""Time and chance, which tests replace, and a pause for other tasks."""

import asyncio
import logging
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

log = logging.getLogger(__name__)

# A clock that differs by more than this from what the monotonic one makes of it was set, by a
# person or by a time server. A smaller difference shifts no wait by more than its own slack.
STEP = timedelta(seconds=2)


class Clock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some time: what lasts is measured with it."""
        return time.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        """About so many seconds: those who begin to wait together do not all go on together."""
        return seconds * random.uniform(1 - share, 1 + share)


SYSTEM = Clock()


class StepClock(Clock):
    """The times of another clock. If that clock is set, `told` is called with the difference before
    the first new time is returned, so that remembered times can be moved by as much.
    """

    def __init__(self, clock: Clock, told: Callable[[timedelta], None]) -> None:
        self._clock = clock
        self._told = told
        self._offset = self._offset_of(clock.now())

    def now(self) -> datetime:
        now = self._clock.now()
        step = self._offset_of(now) - self._offset
        if abs(step) > STEP:
            log.info("the clock stepped by %+.0f s", step.total_seconds())
            self._offset += step
            self._told(step)
        return now

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return self._clock.spread(seconds, share)

    def _offset_of(self, now: datetime) -> datetime:
        """The other clock's time when the monotonic one began."""
        return now - timedelta(seconds=self._clock.monotonic())


async def yield_to_others() -> None:
    """Let other tasks run: with 1,500 ranks, each step of a pass takes 10 to 20 ms."""
    await asyncio.sleep(0)
