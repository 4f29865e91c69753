"""Virtual time: an event loop that never waits, and the clock that goes with it."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from dijob.shell.clock import Clock
from unit.builders import NOW

# So many turns of the loop may follow each other at once; each one more takes time, as it would in
# truth: what goes on for ever would else never come to the end of a test.
TURNS_AT_ONCE = 500
TURN_SECONDS = 0.01
# Each turn takes a little: what is left of a wait by the rounding of floats (2e-13 s) would never
# be over.
INSTANT_SECONDS = 1e-9


class NothingLeftError(AssertionError):
    """Everything waits for something that nobody will do."""


class VirtualLoop(asyncio.BaseEventLoop):
    """Where others would wait for the next timer, its clock jumps to it. It serves no files and no
    sockets.
    """

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self._now = now
        self._until: float | None = None
        self._turns = 0
        self._clock_resolution = 1e-6
        self._selector = self  # asyncio's name for what it asks when nothing is ready

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[Any]:
        """Nothing is ready for so many seconds (None: for ever)."""
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
        """Let everything happen that happens within so many seconds, what is ready at their end
        included.
        """
        self._until = self._now + seconds
        try:
            self.run_forever()
        finally:
            self._until = None

    @property
    def left(self) -> float:
        """Seconds until `run_for` ends."""
        return 0.0 if self._until is None else self._until - self._now

    def cut(self, seconds: float) -> None:
        """Let `run_for` end at the latest in so many seconds."""
        if self._until is not None:
            self._until = min(self._until, self._now + seconds)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""


class VirtualClock(Clock):
    """The loop's time, which began at NOW; what is spread comes exactly then."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self._loop.time())

    def monotonic(self) -> float:
        return 1000.0 + self._loop.time()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        return seconds
