"""Keys for the work queue, and a worker that records its calls."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from cluster.waiting import until_true_async
from dijob.controller.queue.workqueue import Key, WorkQueue

A, B = ("ns", "a"), ("ns", "b")


class Worker:
    """Records its calls. The results for each key come from a script. After the end of the script,
    the result is None. Exceptions in the script are raised.
    """

    def __init__(self) -> None:
        self.answers: dict[Key, list[float | Exception | None]] = {}
        self.done: list[Key] = []
        self.running: list[Key] = []
        self.gates: dict[Key, asyncio.Event] = {}

    async def __call__(self, key: Key) -> float | None:
        assert key not in self.running, "two runs of one key at the same time"
        self.running.append(key)
        try:
            if gate := self.gates.get(key):
                await gate.wait()
        finally:
            self.running.remove(key)
        self.done.append(key)
        answer = (self.answers.get(key) or [None]).pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@contextlib.asynccontextmanager
async def started(queue: WorkQueue) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool], seen: Callable[[], object]) -> None:
    """Let other tasks run until a condition is true."""
    await until_true_async("the passes", condition, evidence=seen)


async def turns(count: int = 50) -> None:
    """Let other tasks run without time passing."""
    for _ in range(count):
        await asyncio.sleep(0)
