"""Throttles the writes that can wait, reminders and intermediate statuses, by how slow the
apiserver is, and says how many of all writes may be under way at once.
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

# Writes at once: how many at first and at most. A write that takes SLOW_SECONDS halves them, but
# not below LEAST_SLOW: it may be a webhook that is slow. One that is refused for want of room does.
FIRST_WINDOW = 32
MOST_WINDOW = 64
LEAST_SLOW = 16
LEAST_REFUSED = 2
SLOW_SECONDS = 1.0


@dataclass(frozen=True)
class Window:
    """How many writes may be under way at once: one more after a round of quick ones, half as many
    after one that is refused or slow (additive increase, multiplicative decrease).

    `cut` is the monotonic time of the last decrease: what was asked before says nothing new.
    """

    size: float = FIRST_WINDOW
    cut: float = float("-inf")

    def refused(self, began: float, at: float) -> "Window":
        """After a write, begun at a monotonic time, for which the apiserver had no room."""
        return self if began < self.cut else Window(max(LEAST_REFUSED, self.size / 2), at)

    def answered(self, began: float, at: float) -> "Window":
        """After any other write."""
        if began < self.cut:
            return self
        if at - began >= SLOW_SECONDS:
            return Window(min(self.size, max(LEAST_SLOW, self.size / 2)), at)
        return replace(self, size=min(MOST_WINDOW, self.size + 1 / self.size))


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
