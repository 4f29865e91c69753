"""Measures the share of time a training process spends waiting for data from other processes."""

from __future__ import annotations

import math
import time
from typing import Callable

# The share is a moving average over roughly this many seconds. The older a measurement, the less
# weight it has.
AVERAGE_SECONDS = 30.0


class WaitMeter:
    """The waiting times of this process.

    The thread that trains adds waiting times, and another thread calls `measure`. No lock is
    needed, because each thread only reads what the other one writes.

    `trains` is true once this process has trained. Only programs that get their data from other
    processes, or from a buffer, are measured (hook/distributer.py, hook/fetcher.py). The time
    before the first training step does not count, because more collectors would not shorten the
    startup. `values` maps the names in the job's status to the newest measurements.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.trains = False
        self.values: dict[str, int] = {}
        self._clock = clock
        # Written by the thread that trains.
        self._measured = False
        self._waited = 0.0
        self._starved_since: float | None = None
        self._fill: Callable[[], float] | None = None
        # Written by `measure`.
        self._share: float | None = None
        self._last: float | None = None
        self._last_waited = 0.0

    def add_wait(self, seconds: float) -> None:
        """Add the seconds that the process has waited for a message."""
        self._measured = True
        if self._starved_since is None:  # else all time counts anyway
            self._waited += seconds

    def note_data(self, found: bool, fill: Callable[[], float] | None) -> None:
        """Record whether a training step has found data. After a step without data, the process
        counts as waiting until another step finds data. `fill` returns how full the buffer is, from
        0 to 1.
        """
        self._measured, self._fill = True, fill
        if not found and self._starved_since is None:
            self._starved_since = self._clock()
        elif found and self._starved_since is not None:
            self._waited += self._clock() - self._starved_since
            self._starved_since = None

    def measure(self) -> bool:
        """Update the values. Return whether any of them has changed."""
        if not (self.trains and self._measured):
            return False
        now, waited, since = self._clock(), self._waited, self._starved_since
        if since is not None:
            waited += max(0.0, now - since)
        if self._last is None:
            self._last, self._last_waited = now, waited
            return False
        passed = now - self._last
        if passed <= 0:
            return False
        share = min(1.0, max(0.0, (waited - self._last_waited) / passed))
        self._last, self._last_waited = now, waited
        if self._share is not None:
            weight = math.exp(-passed / AVERAGE_SECONDS)
            share = self._share * weight + share * (1 - weight)
        self._share = share
        values = {"waitingPercent": round(100 * share)}
        if self._fill is not None:
            values["bufferPercent"] = round(100 * min(1.0, max(0.0, self._fill())))
        changed = values != self.values
        self.values = values
        return changed


meter = WaitMeter()
