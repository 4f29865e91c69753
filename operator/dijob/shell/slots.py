"""Who may write now: what hangs in one namespace, for example at a webhook of its own, holds up no
other.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Slots:
    """At most `each` holders per namespace, and at most `quick` in all. One older than `seconds`
    waits for something that is not the apiserver, and counts in its own namespace only.
    """

    def __init__(self, each: int, quick: int, seconds: float) -> None:
        self._size = each
        # Kept only as long as somebody in the namespace holds one or waits for it.
        self._each: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._quick = asyncio.Semaphore(quick)
        self._seconds = seconds

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncGenerator[None]:
        """Hold a slot of the namespace."""
        each = self._each.get(namespace)
        if each is None:
            each = self._each[namespace] = asyncio.Semaphore(self._size)
        async with each:
            await self._quick.acquire()
            freed = _Once(self._quick)
            timer = asyncio.get_running_loop().call_later(self._seconds, freed.release)
            try:
                yield
            finally:
                timer.cancel()
                freed.release()


class _Once:
    """Releases a semaphore at the first call."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore: asyncio.Semaphore | None = semaphore

    def release(self) -> None:
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore.release()
