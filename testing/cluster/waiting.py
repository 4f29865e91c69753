"""Waits for a condition with a timeout, and reports what was still missing.

The probe of `until` returns what is missing, or "". The probe of `until_true` returns the expected
value, or a falsy value.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from cluster.errors import ClusterError

T = TypeVar("T")
Evidence = Callable[[], object] | None

PAUSE_SECONDS = 0.1
# The interval grows with the waiting time, because a probe can be as expensive as the work that the
# test waits for.
PAUSE_SHARE = 0.04


class NotWithin(ClusterError, AssertionError):
    """A timeout, with the expected condition, what was still missing, and the state."""


@dataclass
class Wait:
    """One wait, which starts when this object is created."""

    what: str
    seconds: float
    evidence: Evidence
    pause: float
    begin: float = field(default_factory=time.monotonic)

    @property
    def waited(self) -> float:
        return time.monotonic() - self.begin

    def again(self, missing: object) -> float:
        """Return the seconds until the next probe. Raise NotWithin after the timeout."""
        if (waited := self.waited) > self.seconds:
            shown = f"\n{self.evidence()}" if self.evidence else ""
            raise NotWithin(f"{self.what}: not within {self.seconds:g} s: {missing}{shown}")
        return max(self.pause, waited * PAUSE_SHARE)


def until(
    what: str,
    missing: Callable[[], str],
    seconds: float,
    evidence: Evidence = None,
    pause: float = PAUSE_SECONDS,
) -> float:
    """Poll until nothing is missing. Return how many seconds it took."""
    wait = Wait(what, seconds, evidence, pause)
    while said := missing():
        time.sleep(wait.again(said))
    return wait.waited


def until_true(
    what: str,
    look: Callable[[], T],
    seconds: float = 60.0,
    evidence: Evidence = None,
    pause: float = 0.01,
) -> T:
    """Poll until look() returns a true value, and return this value."""
    wait = Wait(what, seconds, evidence, pause)
    while not (seen := look()):
        time.sleep(wait.again(f"last seen: {seen!r}"))
    return seen


async def until_async(
    what: str, missing: Callable[[], Awaitable[str]], seconds: float, evidence: Evidence = None
) -> float:
    """Like `until`, with an asynchronous probe."""
    wait = Wait(what, seconds, evidence, PAUSE_SECONDS)
    while said := await missing():  # noqa: ASYNC110 (it waits for another process)
        await asyncio.sleep(wait.again(said))
    return wait.waited


async def until_true_async(
    what: str, look: Callable[[], object], seconds: float = 10.0, evidence: Evidence = None
) -> None:
    """Like `until_true`, but let other tasks run between two probes, without a minimum pause."""
    wait = Wait(what, seconds, evidence, 0.0)
    while not (seen := look()):  # noqa: ASYNC110 (it waits for the code under test)
        await asyncio.sleep(wait.again(f"last seen: {seen!r}"))
