"""Throttles the writes that can wait, reminders and intermediate statuses, by how slow the
apiserver is. No other write waits for this.
"""

from dataclasses import dataclass, replace

# Between two writes that can wait are at least so many times the seconds that one write takes now:
# those of a start take 10 ms at rest and half a second on a machine that is busy.
TIMES = 30.0
LONGEST_SECONDS = 60.0
# A write that was refused for want of room (429) counts as one that took this long.
REFUSED_SECONDS = 2.0
# WEIGHT is the share of the newest write in the average, which halves in HALF_LIFE_SECONDS without
# a write.
WEIGHT = 0.125
HALF_LIFE_SECONDS = 30.0
# One write that can wait is earned by ten that cannot, and one by each minute; at most SAVED are
# kept.
SHARE = 0.1
SAVED = 10.0
EARNED_PER_SECOND = 1 / 60


@dataclass(frozen=True)
class Latency:
    """How long our own writes take, smoothed: `seconds`, as of the monotonic time `at`."""

    seconds: float = 0.0
    at: float = 0.0

    def now(self, at: float) -> float:
        """What is believed of it at a later time."""
        return float(self.seconds * 0.5 ** (max(0.0, at - self.at) / HALF_LIFE_SECONDS))

    def after(self, seconds: float, at: float) -> "Latency":
        """With one more write."""
        before = self.now(at)
        return Latency(before + WEIGHT * (seconds - before), at)


@dataclass(frozen=True)
class Budget:
    """How many writes that may wait may still be made, as of the monotonic time `at`."""

    writes: float = 1.0
    at: float = 0.0

    def now(self, at: float) -> int:
        return int(self._saved(at) + 1e-9)

    def earned(self, writes: int, at: float) -> "Budget":
        """After so many writes that may not wait."""
        return replace(self, writes=min(SAVED, self._saved(at) + SHARE * writes), at=at)

    def spent(self, at: float) -> "Budget":
        return replace(self, writes=max(0.0, self._saved(at) - 1.0), at=at)

    def _saved(self, at: float) -> float:
        return min(SAVED, self.writes + max(0.0, at - self.at) * EARNED_PER_SECOND)


def interval(base: float, latency: float) -> float:
    """Seconds between two writes that may wait, `base` where the apiserver is quick."""
    return max(base, min(LONGEST_SECONDS, TIMES * latency))
