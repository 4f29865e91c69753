"""Who may write now: as many at once as the apiserver answers quickly, and what hangs in one
namespace, for example at a webhook of its own, holds up no other.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from dijob.core.pace import Window
from dijob.shell.clock import Clock


class Slots:
    """At most so many holders as the window says, and half of them per namespace. One older than
    `seconds` waits for something that is not the apiserver, and counts in its own namespace only.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self.window = Window()
        # Kept only as long as somebody in the namespace holds one or waits for it.
        self._each: WeakValueDictionary[str, _Limit] = WeakValueDictionary()
        self._quick = _Limit(lambda: 0 if self._closed else int(self.window.size))
        self._closed = False
        self._seconds = seconds
        self._clock = clock

    @property
    def each(self) -> int:
        """How many may write in one namespace."""
        return max(1, int(self.window.size / 2))

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncGenerator[None]:
        """Hold a slot of the namespace."""
        each = self._each.get(namespace)
        if each is None:
            each = self._each[namespace] = _Limit(lambda: self.each)
        await each.acquire()
        try:
            await self._quick.acquire()
            freed = _Once(self._quick)
            timer = asyncio.get_running_loop().call_later(self._seconds, freed.release)
            try:
                yield
            finally:
                timer.cancel()
                freed.release()
        finally:
            each.release()

    def answered(self, began: float) -> None:
        """A write, begun at a monotonic time, has an answer."""
        window = self.window.answered(began, self._clock.monotonic())
        # Where few write, quick answers say nothing of what more of them would get.
        if window.size < self.window.size or self._quick.used >= self.window.size / 2:
            self.window = window

    def refused(self, began: float, again: float) -> None:
        """The apiserver has no room, and wants to be asked again after so many seconds."""
        self.window = self.window.refused(began, self._clock.monotonic())
        if again > 0 and not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_later(again, self._open)

    def _open(self) -> None:
        self._closed = False
        self._quick.admit()


class _Limit:
    """A semaphore whose size can change: at most so many holders as `size` says at that moment."""

    def __init__(self, size: Callable[[], int]) -> None:
        self.used = 0
        self._size = size
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self.admit()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # its turn had just come
                self.release()
            raise

    def release(self) -> None:
        self.used -= 1
        self.admit()

    def admit(self) -> None:
        """Let those in who have waited longest."""
        while self._waiting and self.used < self._size():
            turn = self._waiting.popleft()
            if not turn.done():
                self.used += 1
                turn.set_result(None)


class _Once:
    """Releases a limit's slot at the first call."""

    def __init__(self, limit: _Limit) -> None:
        self._limit: _Limit | None = limit

    def release(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.release()
