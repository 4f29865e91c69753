"""Time and chance, which tests replace, and a pause for other tasks."""

import asyncio
import random
import time
from datetime import UTC, datetime


class Clock:
    """The machine's own."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some time: what lasts is measured with it."""
        return time.monotonic()

    def spread(self, seconds: float, share: float = 0.2) -> float:
        """About so many seconds: those who begin to wait together do not all go on together."""
        return seconds * random.uniform(1 - share, 1 + share)


SYSTEM = Clock()


async def yield_to_others() -> None:
    """Let other tasks run: with 1,500 ranks, each step of a pass takes 10 to 20 ms."""
    await asyncio.sleep(0)
