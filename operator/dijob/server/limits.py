"""How often something may be done: a bucket of tokens for each key."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Rate:
    """So many a second in the long run, and at most `burst` at once."""

    per_second: float
    burst: float


class Limit:
    """Counts by key. A key that has not been used for long costs no memory."""

    def __init__(self, rate: Rate, most_keys: int = 10_000) -> None:
        self._rate = rate
        self._most = most_keys
        # When the bucket of a key is full again, in monotonic seconds.
        self._full: dict[str, float] = {}

    def take(self, key: str, now: float) -> float:
        """Take a token. Gives 0, or in how many seconds there is one."""
        each = 1 / self._rate.per_second
        full = max(now, self._full.get(key, now))
        wait = full + each - now - self._rate.burst * each
        if wait > 1e-9:
            return wait
        if len(self._full) >= self._most:
            self._full = {name: at for name, at in self._full.items() if at > now}
        self._full[key] = full + each
        return 0.0
