"""Waits for a condition, with a bound, and says what was still missing when the time is over.

The probe of `until` returns what is missing, "" when nothing is. The one of `until_true` returns
what is wanted, or something false.
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
# Who has waited long looks less often: each look costs the machine as much as the work that is
# waited for.
PAUSE_SHARE = 0.04


class NotWithin(ClusterError, AssertionError):
    """The time is over: what was waited for, what was still missing, and the evidence."""


@dataclass
class Wait:
    """One wait, which begins when it is made."""

    what: str
    seconds: float
    evidence: Evidence
    pause: float
    begin: float = field(default_factory=time.monotonic)

    @property
    def waited(self) -> float:
        return time.monotonic() - self.begin

    def again(self, missing: object) -> float:
        """Seconds until the next look, after one that found this. NotWithin after the bound."""
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
    """Poll until nothing is missing; the seconds that it took."""
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
    """Poll until look() returns something true; what it returned."""
    wait = Wait(what, seconds, evidence, pause)
    while not (seen := look()):
        time.sleep(wait.again(f"last seen: {seen!r}"))
    return seen


async def until_async(
    what: str, missing: Callable[[], Awaitable[str]], seconds: float, evidence: Evidence = None
) -> float:
    """`until` with a probe that is awaited."""
    wait = Wait(what, seconds, evidence, PAUSE_SECONDS)
    while said := await missing():  # noqa: ASYNC110 (what it waits for is another process)
        await asyncio.sleep(wait.again(said))
    return wait.waited


async def until_true_async(
    what: str, look: Callable[[], object], seconds: float = 10.0, evidence: Evidence = None
) -> None:
    """`until_true` that lets the other tasks go on between two looks, and pauses no longer."""
    wait = Wait(what, seconds, evidence, 0.0)
    while not (seen := look()):  # noqa: ASYNC110 (what it waits for is under test)
        await asyncio.sleep(wait.again(f"last seen: {seen!r}"))
