"""Backoff between failed attempts, and a message if the attempts keep failing.

If a proxy ends each watch immediately, or an apiserver is overloaded, a client without backoff
sends hundreds of requests per second. The bounds are those of client-go's reflector
(tools/cache/reflector.go).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from dijob.api.printed import one_line
from dijob.core.backoff import doubled_wait

log = logging.getLogger(__name__)

# Receives a sentence about the failure, and "" when the attempts succeed again.
Report = Callable[[str], None]

PAUSE_SECONDS: Final = (0.8, 30.0)
# The pauses are randomized. Otherwise all clients that lost their connections at the same moment
# would also reconnect at the same moment.
_JITTER: Final = 0.5
# A connection that has lasted this long counts as a success, even if it ends with an error.
HEALTHY_SECONDS: Final = 5.0
# Shorter failures are not reported: a message about each restart of the apiserver would only worry
# the user.
_SILENT_SECONDS: Final = 5.0


def log_failure(sentence: str) -> None:
    """Log a repeated failure. If no handler is configured, logging prints it on stderr."""
    if sentence:
        log.warning("%s", one_line(sentence))


class Retries:
    """Counts the failed attempts of one operation, such as the watch of one collection."""

    def __init__(
        self, what: str, report: Report = log_failure, bounds: tuple[float, float] = PAUSE_SECONDS
    ) -> None:
        self._what, self._report, self._bounds = what, report, bounds
        self._failures = 0
        self._began = 0.0
        self._reported = False
        self._lasted = False

    @property
    def lasted(self) -> bool:
        """Whether the last connection lasted HEALTHY_SECONDS. If so, its end is not a failure."""
        return self._lasted

    def succeeded(self) -> None:
        """Reset the count of failures, and report that the operation is working again."""
        self._failures = 0
        if self._reported:
            self._reported = False
            self._report("")

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Wrap an open connection. It counts as a success once it has lasted HEALTHY_SECONDS.

        A timer is needed because a watch without events can be silent for minutes.
        """
        self._lasted = False
        timer = asyncio.get_running_loop().call_later(HEALTHY_SECONDS, self._has_lasted)
        try:
            yield
        finally:
            timer.cancel()

    def _has_lasted(self) -> None:
        self._lasted = True
        self.succeeded()

    async def pause(self, why: str) -> None:
        """Count a failure, and wait; the wait grows with each consecutive failure."""
        await asyncio.sleep(self.failed(why))

    def failed(self, why: str) -> float:
        """Count a failure, and report it if the failures persist. Return the seconds to wait."""
        self._lasted = False
        now = asyncio.get_running_loop().time()
        if not self._failures:
            self._began = now
        self._failures += 1
        seconds = doubled_wait(self._failures, self._bounds) * random.uniform(1.0, 1.0 + _JITTER)
        # The next pause is included, so that a long pause is reported before it begins.
        if not self._reported and now + seconds - self._began > _SILENT_SECONDS:
            self._reported = True
            self._report(f"{self._what} keeps failing and is being retried: {why}")
        return seconds
