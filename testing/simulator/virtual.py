"""Virtual time: an event loop that never waits, and a clock for it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from dijob.process.clock import Clock
from samples.builders import NOW

# After this many turns of the loop without a pause, each turn takes time, as it would in reality.
# Otherwise a test with an endless loop would never reach its end.
TURNS_AT_ONCE = 500
TURN_SECONDS = 0.01
# Each turn takes a little time. Otherwise rounding could leave a remainder of a wait (2e-13 s) that
# would never elapse.
INSTANT_SECONDS = 1e-9


class NothingLeftError(AssertionError):
    """All tasks are waiting, and no timer is left that could wake one of them."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock jumps to the next timer instead of waiting. It supports neither
    files nor sockets.
    """

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._now = now
        self._until: float | None = None
        self._turns = 0
        self._clock_resolution = 1e-6
        self._selector = self  # asyncio calls its `select` if nothing is ready

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Let `timeout` seconds pass. `timeout` is None if no timer is left."""
        self._turns = self._turns + 1 if timeout == 0 else 0
        if timeout == 0:
            self._now += TURN_SECONDS if self._turns > TURNS_AT_ONCE else INSTANT_SECONDS
            if self._until is not None and self._now > self._until:
                self.stop()
            return []
        if self._until is not None and (timeout is None or self._now + timeout > self._until):
            self._now = max(self._now, self._until)
            self.stop()
        elif timeout is None:
            raise NothingLeftError
        else:
            self._now += timeout
        return []

    def run_for(self, seconds: float) -> None:
        """Run for some seconds, and then run everything that is ready at the end of that time."""
        self._until = self._now + seconds
        try:
            self.run_forever()
        finally:
            self._until = None

    @property
    def left(self) -> float:
        """Return the seconds until `run_for` ends."""
        return 0.0 if self._until is None else self._until - self._now

    def cut(self, seconds: float) -> None:
        """Make `run_for` end after at most `seconds`."""
        if self._until is not None:
            self._until = min(self._until, self._now + seconds)

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no file events."""

    def _write_to_self(self) -> None:
        """Do nothing: the loop never sleeps."""


class VirtualClock(Clock):
    """A clock with the loop's time, which starts at NOW. There is no jitter."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return 1000.0 + self._loop.time()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return seconds
