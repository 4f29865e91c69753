"""Rate limits: a token bucket for each key."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """A rate in the long run, in tokens per second, and the largest burst."""

    per_second: float
    burst: float


class Limit:
    """A token bucket for each key, for example for each job or address.

    A bucket is stored as the time at which it is full again. A full bucket is not stored at all, so
    keys that are no longer used cost no memory.
    """

    def __init__(self, rate: Rate, most_keys: int = 10_000) -> None:
        self._rate = rate
        self._most = most_keys
        # When the bucket of each key is full again, in monotonic seconds.
        self._full: dict[str, float] = {}

    def take(self, key: str, now: float) -> float:
        """Take a token and return 0, or return in how many seconds the next one is available."""
        each = 1 / self._rate.per_second
        full = max(now, self._full.get(key, now))
        wait = full + each - now - self._rate.burst * each
        # The tolerance absorbs rounding errors of the sums above.
        if wait > 1e-9:
            return wait
        if len(self._full) >= self._most:
            self._full = {name: at for name, at in self._full.items() if at > now}
        self._full[key] = full + each
        return 0.0
