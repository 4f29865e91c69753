"""Throttles writes. The latency of the API server limits how often reminders and intermediate
statuses are sent. These writes are called deferrable, because they can be delayed. A window
limits how many writes of all kinds may be in flight at once.

While many jobs start, the control plane is the bottleneck. Deferrable writes would then delay the
writes that jobs are waiting for.
"""

from dataclasses import dataclass, replace

# The interval between deferrable writes is at least this many times the current latency.
# While jobs start, a write takes 10 ms on an idle machine and half a second on a busy one.
TIMES = 30.0
LONGEST_SECONDS = 60.0
# A write that was rejected with 429 (too many requests) is treated as a write that took this long.
REFUSED_SECONDS = 2.0
# WEIGHT is the share of the newest write in the average. Without writes, the average halves in
# HALF_LIFE_SECONDS, since an old measurement says little about the present.
WEIGHT = 0.125
HALF_LIFE_SECONDS = 30.0
# One deferrable write is allowed for every ten other writes, and one more every minute. Unused
# allowance accumulates, up to SAVED writes.
SHARE = 0.1
SAVED = 10.0
EARNED_PER_SECOND = 1 / 60

# Writes in flight: their initial and maximum number. A write that takes SLOW_SECONDS halves the
# number, but not below LEAST_SLOW, since a single webhook may be the cause. A 429 halves it
# further, down to LEAST_REFUSED.
FIRST_WINDOW = 32
MOST_WINDOW = 64
LEAST_SLOW = 16
LEAST_REFUSED = 2
SLOW_SECONDS = 1.0


@dataclass(frozen=True)
class Window:
    """How many writes may be in flight at once. After a round of quick writes, the number grows by
    one. After a rejected or slow write, it is halved (additive increase, multiplicative decrease,
    as in TCP).

    `cut` is the monotonic time of the last decrease. Writes that were sent before that time are
    ignored, because they suffered from the old, larger window.
    """

    size: float = FIRST_WINDOW
    cut: float = float("-inf")

    def refused(self, began: float, at: float) -> "Window":
        """Return the window after a write that was rejected with 429. `began` is the monotonic time
        at which it was sent.
        """
        return self if began < self.cut else Window(max(LEAST_REFUSED, self.size / 2), at)

    def answered(self, began: float, at: float) -> "Window":
        """Return the window after a write that was not rejected with 429."""
        if began < self.cut:
            return self
        # A slow response is treated like a rejection, since an overloaded API server queues
        # requests before it rejects any.
        if at - began >= SLOW_SECONDS:
            return Window(min(self.size, max(LEAST_SLOW, self.size / 2)), at)
        return replace(self, size=min(MOST_WINDOW, self.size + 1 / self.size))


@dataclass(frozen=True)
class Latency:
    """The smoothed latency of our own writes: `seconds`, as of the monotonic time `at`."""

    seconds: float = 0.0
    at: float = 0.0

    def now(self, at: float) -> float:
        """Return the estimate at the monotonic time `at`. Without new writes, it is halved every
        HALF_LIFE_SECONDS.
        """
        return float(self.seconds * 0.5 ** (max(0.0, at - self.at) / HALF_LIFE_SECONDS))

    def after(self, seconds: float, at: float) -> "Latency":
        """Return the latency after one more write."""
        before = self.now(at)
        return Latency(before + WEIGHT * (seconds - before), at)


@dataclass(frozen=True)
class Budget:
    """How many deferrable writes may be sent, as of the monotonic time `at`."""

    writes: float = 1.0
    at: float = 0.0

    def now(self, at: float) -> int:
        # If 0.1 is added repeatedly, rounding can make the sum slightly less than an integer.
        return int(self._saved(at) + 1e-9)

    def earned(self, writes: int, at: float) -> "Budget":
        """Return the budget after this many writes that are not deferrable."""
        return replace(self, writes=min(SAVED, self._saved(at) + SHARE * writes), at=at)

    def spent(self, at: float) -> "Budget":
        return replace(self, writes=max(0.0, self._saved(at) - 1.0), at=at)

    def _saved(self, at: float) -> float:
        return min(SAVED, self.writes + max(0.0, at - self.at) * EARNED_PER_SECOND)


def write_interval(base: float, latency: float) -> float:
    """Return the interval (seconds) between deferrable writes. This is `base` while the API server
    responds quickly.
    """
    return max(base, min(LONGEST_SECONDS, TIMES * latency))
