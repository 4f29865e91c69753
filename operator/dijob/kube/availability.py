"""Detects whether the apiserver responds to any request or watch from this process.

`Availability` allows /livez to distinguish a dead watch from an unreachable apiserver: a restart of
this process fixes only the dead watch.
"""

import time
from collections.abc import Callable

# The audit sends a request once a minute and waits 30 s for the response (audit.py). If there has
# been no response for longer than these two times combined, the apiserver is unreachable.
ABSENT_SECONDS = 100.0


class Availability:
    """Records when the apiserver last responded, and for how long it has been reachable without
    interruption.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = self._since = clock()

    def beat(self) -> None:
        """Note a response."""
        now = self._clock()
        if now - self._last > ABSENT_SECONDS:
            self._since = now
        self._last = now

    @property
    def absence(self) -> float:
        """Seconds since the last response, or 0 if the last response was at most ABSENT_SECONDS
        ago.
        """
        silent = self._clock() - self._last
        return silent if silent > ABSENT_SECONDS else 0.0

    @property
    def presence(self) -> float:
        """Seconds since the apiserver became reachable; 0 if it is unreachable."""
        return 0.0 if self.absence else self._clock() - self._since
