"""Pauses between attempts that fail one after the other, and a message if this goes on.

A proxy can end each watch at once, or an apiserver can be overloaded. A client that asks again
immediately then sends hundreds of requests per second. The bounds are those of client-go's
reflector (tools/cache/reflector.go).
"""

import asyncio
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from dijob.api.printed import one_line
from dijob.core.backoff import doubled

log = logging.getLogger(__name__)

# Gets a sentence about what is failing, and "" when it works again.
Report = Callable[[str], None]

PAUSE_SECONDS: Final = (0.8, 30.0)
# Clients that failed together must not all come back together.
_JITTER: Final = 0.5
# A connection that has lasted this long works, however it ends.
HEALTHY_SECONDS: Final = 5.0
# Failures within this time are no news for the user.
_SILENT_SECONDS: Final = 5.0


def warn(sentence: str) -> None:
    """Log a trouble. Without a handler, logging prints a warning on stderr."""
    if sentence:
        log.warning("%s", one_line(sentence))


class Retries:
    """The attempts at one thing, such as a watch of one collection."""

    def __init__(
        self, what: str, report: Report = warn, bounds: tuple[float, float] = PAUSE_SECONDS
    ) -> None:
        self._what, self._report, self._bounds = what, report, bounds
        self._failures = 0
        self._began = 0.0
        self._reported = False
        self._lasted = False

    @property
    def lasted(self) -> bool:
        """Whether the last connection has lasted: its end is no failure."""
        return self._lasted

    def succeeded(self) -> None:
        """The next failure is the first one again."""
        self._failures = 0
        if self._reported:
            self._reported = False
            self._report("")

    @contextmanager
    def lasting(self) -> Iterator[None]:
        """Around an open connection, which is a success once it has lasted HEALTHY_SECONDS."""
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
        """Wait after a failure, longer after each one."""
        await asyncio.sleep(self.failed(why))

    def failed(self, why: str) -> float:
        """Count a failure, and report a trouble that goes on. Returns the seconds to wait."""
        self._lasted = False
        now = asyncio.get_running_loop().time()
        if not self._failures:
            self._began = now
        self._failures += 1
        seconds = doubled(self._failures, self._bounds) * random.uniform(1.0, 1.0 + _JITTER)
        if not self._reported and now + seconds - self._began > _SILENT_SECONDS:
            self._reported = True
            self._report(f"{self._what} fails repeatedly and is retried: {why}")
        return seconds
