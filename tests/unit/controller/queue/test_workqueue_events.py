"""Events in the queue: a burst causes one run, and never delays a run that is due sooner."""

import asyncio

import pytest
from dijob.controller.queue import workqueue
from dijob.controller.queue.workqueue import WorkQueue
from fakes.queued import A, Worker, started, turns, until


async def test_events_before_a_run_has_started_are_part_of_it() -> None:
    """Several events can arrive in one packet of a watch."""
    work = Worker()
    queue = WorkQueue(work)
    async with started(queue):
        await turns()
        for _ in range(4):
            queue.add(A)
        await until(lambda: work.done == [A], lambda: work.done)
        await turns()
    assert work.done == [A]


@pytest.mark.virtual_time
async def test_events_of_one_burst_cause_one_run() -> None:
    worker, loop = Worker(), asyncio.get_running_loop()
    queue, begin = WorkQueue(worker), loop.time()
    async with started(queue):
        for _ in range(9):
            queue.add_news(A)
            await asyncio.sleep(0.01)
        assert not worker.done
        await asyncio.sleep(workqueue.BURST_SECONDS)
        assert worker.done == [A]
        assert loop.time() - begin < 2 * workqueue.BURST_SECONDS


@pytest.mark.virtual_time
async def test_events_never_delay_a_run_that_is_due_sooner() -> None:
    worker = Worker()
    queue = WorkQueue(worker)
    async with started(queue):
        queue.add_after(A, workqueue.BURST_SECONDS / 4)
        queue.add_news(A)
        await asyncio.sleep(workqueue.BURST_SECONDS / 2)
        assert worker.done == [A]


@pytest.mark.virtual_time
async def test_events_advance_a_run_that_is_due_later() -> None:
    worker = Worker()
    queue = WorkQueue(worker)
    async with started(queue):
        queue.add_after(A, 300)
        queue.add_news(A)
        await asyncio.sleep(2 * workqueue.BURST_SECONDS)
        assert worker.done == [A]


@pytest.mark.virtual_time
@pytest.mark.parametrize("again", [None, 0.05, 300.0], ids=["never", "soon", "late"])
async def test_events_during_a_run_cause_another_one(again: float | None) -> None:
    worker = Worker()
    queue = WorkQueue(worker)
    worker.answers[A], worker.gates[A] = [again], asyncio.Event()
    async with started(queue):
        queue.add(A)
        await turns()
        queue.add_news(A)
        worker.gates[A].set()
        await asyncio.sleep(2 * workqueue.BURST_SECONDS)
        assert worker.done == [A, A]


@pytest.mark.virtual_time
async def test_events_during_a_failing_run_wait_for_its_back_off() -> None:
    worker = Worker()
    queue = WorkQueue(worker)
    worker.answers[A], worker.gates[A] = [ValueError("no")], asyncio.Event()
    async with started(queue):
        queue.add(A)
        await turns()
        queue.add_news(A)
        worker.gates[A].set()
        await asyncio.sleep(3 * workqueue.BURST_SECONDS)
        assert worker.done == [A]
        await asyncio.sleep(1)
        assert worker.done == [A, A]
