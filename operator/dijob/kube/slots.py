"""Adaptive limit on concurrent writes.

The limit grows while the apiserver responds quickly and shrinks when it is overloaded
(core/pace.py). Each namespace may use at most half of this limit. So if writes hang in one
namespace, for example at an admission webhook, they do not block the other namespaces.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from dijob.core.pace import Window
from dijob.process.clock import Clock


class Slots:
    """Slots for writes, limited in total and per namespace.

    A write that takes longer than `seconds` is most likely waiting for a webhook rather than
    for the apiserver. From then on, it counts against the limit of its namespace only.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self.window = Window()
        # A weak dictionary, so that namespaces without writes take no memory.
        self._each: WeakValueDictionary[str, _Limit] = WeakValueDictionary()
        self._quick = _Limit(lambda: 0 if self._closed else int(self.window.size))
        self._closed = False
        self._seconds = seconds
        self._clock = clock

    @property
    def each(self) -> int:
        """The limit of one namespace."""
        return max(1, int(self.window.size / 2))

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncGenerator[None]:
        """Hold a slot for a write in a namespace."""
        each = self._each.get(namespace)
        if each is None:
            each = self._each[namespace] = _Limit(lambda: self.each)
        # Take the slot of the namespace first. Otherwise, if the writes of a namespace
        # hung, the writes waiting behind them would occupy slots of the total limit.
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
        """Adjust the limit after a response to a write. `began` is the monotonic time at
        which the write started.
        """
        window = self.window.answered(began, self._clock.monotonic())
        # If few writes are concurrent, a quick response does not show that the apiserver could
        # handle more. So the limit grows only while at least half of it is in use.
        if window.size < self.window.size or self._quick.used >= self.window.size / 2:
            self.window = window

    def refused(self, began: float, again: float) -> None:
        """Reduce the limit after a 429, and do not start any writes for `again` seconds
        (Retry-After).
        """
        self.window = self.window.refused(began, self._clock.monotonic())
        if again > 0 and not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_later(again, self._open)

    def _open(self) -> None:
        self._closed = False
        self._quick.admit()


class _Limit:
    """A semaphore whose size can change: `size` is called whenever a slot is requested or freed."""

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
            if not turn.cancelled():  # the slot was assigned just before the cancellation
                self.release()
            raise

    def release(self) -> None:
        self.used -= 1
        self.admit()

    def admit(self) -> None:
        """Assign free slots to the writes that have waited longest."""
        while self._waiting and self.used < self._size():
            turn = self._waiting.popleft()
            if not turn.done():
                self.used += 1
                turn.set_result(None)


class _Once:
    """Releases a slot only once: when the timer fires or when the write ends, whichever comes
    first.
    """

    def __init__(self, limit: _Limit) -> None:
        self._limit: _Limit | None = limit

    def release(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None:
            limit.release()
