"""Whether the apiserver answers at all, as all calls and streams of this process have it."""

import time
from collections.abc import Callable

# The audit asks it once a minute (audit.py), and waits 30 s for an answer: after so long it does
# not answer.
ABSENT_SECONDS = 100.0


class Pulse:
    """When the apiserver has last answered, and since when it has done so without a gap."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = self._since = clock()

    def beat(self) -> None:
        """It has just answered."""
        now = self._clock()
        if now - self._last > ABSENT_SECONDS:
            self._since = now
        self._last = now

    @property
    def absence(self) -> float:
        """Seconds for which it has answered nothing; 0 where that is no long time."""
        silent = self._clock() - self._last
        return silent if silent > ABSENT_SECONDS else 0.0

    @property
    def presence(self) -> float:
        """Seconds for which it has answered without a gap; 0 while it does not."""
        return 0.0 if self.absence else self._clock() - self._since
