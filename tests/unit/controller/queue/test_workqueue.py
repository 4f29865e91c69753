"""The work queue: one run per key at a time, no lost keys, no busy loops, and isolated errors."""

import asyncio

import pytest
from dijob.controller import metrics
from dijob.controller.queue import workqueue
from dijob.controller.queue.workqueue import WorkQueue
from fakes.queued import A, B, Worker, started, turns, until
from simulator.virtual import VirtualClock


async def test_a_key_that_is_added_many_times_runs_once() -> None:
    work = Worker()
    queue = WorkQueue(work)
    for key in (A, A, B, A):
        queue.add(key)
    async with started(queue):
        await until(lambda: len(work.done) == 2, lambda: work.done)
        await turns()
    assert work.done == [A, B]


async def test_a_key_that_is_added_during_its_run_runs_again() -> None:
    work = Worker()
    gate = work.gates[A] = asyncio.Event()
    queue = WorkQueue(work)
    queue.add(A)
    async with started(queue):
        await until(lambda: work.running == [A], lambda: work.running)
        queue.add(A)
        queue.add(A)
        queue.add(B)
        await until(lambda: work.done == [B], lambda: work.done)
        gate.set()
        await until(lambda: work.done == [B, A, A], lambda: work.done)
        await turns()
    assert work.done == [B, A, A]


async def test_the_result_of_a_run_schedules_the_next_one() -> None:
    work = Worker()
    work.answers[A] = [0.0, 0.001, None]
    queue = WorkQueue(work)
    queue.add(A)
    async with started(queue):
        await until(lambda: work.done == [A, A, A], lambda: work.done)
        await turns()
    assert work.done == [A, A, A]


async def test_adding_a_key_replaces_its_timer() -> None:
    work = Worker()
    queue = WorkQueue(work)
    async with started(queue):
        queue.add_after(A, 3600)
        queue.add(A)
        await until(lambda: work.done == [A], lambda: work.done)
        assert queue._timers == {}
        queue.add_after(A, 3600)
        queue.add_after(A, 0.001)
        await until(lambda: work.done == [A, A], lambda: work.done)


async def test_a_timer_never_delays_a_queued_key() -> None:
    work = Worker()
    queue = WorkQueue(work)
    queue.add(A)
    queue.add_after(A, 3600)
    async with started(queue):
        await until(lambda: work.done == [A], lambda: work.done)


async def test_a_run_that_raises_is_retried_and_stops_no_other_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workqueue, "BACKOFF_SECONDS", (0.001, 0.002))
    work = Worker()
    work.answers[A] = [ValueError("poison"), KeyError("x"), None]
    queue = WorkQueue(work, workers=1)
    queue.add(A)
    queue.add(B)
    async with started(queue):
        await until(lambda: work.done.count(A) == 3, lambda: work.done)
    assert work.done.count(B) == 1
    assert queue._failures == {}


async def test_events_do_not_shorten_the_back_off_of_a_failed_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workqueue, "BACKOFF_SECONDS", (3600.0, 3600.0))
    work = Worker()
    gate = work.gates[A] = asyncio.Event()
    work.answers[A] = [ValueError("poison")]
    queue = WorkQueue(work)
    queue.add(A)
    async with started(queue):
        await until(lambda: work.running == [A], lambda: work.running)
        queue.add(A)
        gate.set()
        await until(lambda: work.done == [A], lambda: work.done)
        await turns()
    assert work.done == [A]


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [(0, 0.4, 0.6), (3, 3.2, 4.8), (20, 48, 72), (5000, 48, 72)],
    ids=str,
)
def test_the_back_off_is_at_most_a_minute(failures: int, least: float, most: float) -> None:
    """2.0 ** 1024 raises: a run that fails for 17 hours would crash the operator."""
    queue = WorkQueue(Worker())
    queue._failures[A] = failures
    assert least <= queue._failed(A, ValueError("poison")) <= most


async def test_new_keys_run_before_the_background() -> None:
    work = Worker()
    queue = WorkQueue(work, workers=1)
    crowd = [("ns", f"old-{number}") for number in range(20)]
    for key in crowd:
        queue.add(key, background=True)
    queue.add(A)
    queue.add(crowd[7])
    queue.add(A, background=True)
    queue.release()
    async with started(queue):
        await until(lambda: len(work.done) == 21, lambda: work.done)
        await turns()
    assert work.done == [A, crowd[7], *(key for key in crowd if key != crowd[7])]


async def test_the_background_waits_until_it_is_released() -> None:
    work = Worker()
    queue = WorkQueue(work)
    old = ("ns", "old")
    async with started(queue):
        queue.add(old, background=True)
        queue.add(old, background=True)
        queue.add(A)
        await until(lambda: work.done == [A], lambda: work.done)
        await turns()
        assert work.done == [A]
        queue.release()
        await until(lambda: work.done == [A, old], lambda: work.done)
        queue.add(old, background=True)
        await until(lambda: work.done == [A, old, old], lambda: work.done)
        await turns()
    assert work.done == [A, old, old]


def measured(name: str) -> float:
    return metrics.REGISTRY.get_sample_value(f"dijob_queue_{name}") or 0.0


@pytest.mark.virtual_time
async def test_how_long_a_key_waits_is_measured() -> None:
    loop = asyncio.get_running_loop()
    work = Worker()
    queue = WorkQueue(work, workers=1, clock=VirtualClock(loop))
    work.gates[A] = asyncio.Event()
    before = measured("wait_seconds_sum"), measured("wait_seconds_count")
    async with started(queue):
        queue.add(A)
        await turns()
        queue.add(B)
        await asyncio.sleep(1)
        queue.add(B)
        await asyncio.sleep(1.5)
        assert (measured("depth"), round(measured("oldest_seconds"), 1)) == (1, 2.5)
        work.gates[A].set()
        await until(lambda: work.done == [A, B], lambda: work.done)
    assert (measured("depth"), measured("oldest_seconds")) == (0, 0)
    assert measured("wait_seconds_count") - before[1] == 2
    assert measured("wait_seconds_sum") - before[0] == pytest.approx(2.5, abs=0.1)


@pytest.mark.virtual_time
async def test_waiting_as_a_standby_is_not_measured() -> None:
    async with started(WorkQueue(Worker())):
        await turns()  # the gauges are set when the queue has started
    loop = asyncio.get_running_loop()
    work = Worker()
    queue = WorkQueue(work, clock=VirtualClock(loop))
    queue.add(A)
    before = measured("wait_seconds_sum")
    await asyncio.sleep(3600)
    assert measured("oldest_seconds") == 0, "waiting as a standby is not measured"
    async with started(queue):
        await until(lambda: work.done == [A], lambda: work.done)
    assert measured("wait_seconds_sum") - before == pytest.approx(0, abs=0.1)


@pytest.mark.virtual_time
async def test_a_new_leader_starts_with_recent_changes() -> None:
    """The new leader's queue contains all keys that the previous leader handled in the meantime."""
    clock = VirtualClock(asyncio.get_running_loop())
    work = Worker()
    queue = WorkQueue(work, workers=1, clock=clock)
    queue.release()
    others = [("ns", f"other-{number}") for number in range(5)]
    for key in (A, *others, B):
        queue.add(key)
    await asyncio.sleep(3600)
    queue.add(B)
    await asyncio.sleep(5)
    async with started(queue):
        await asyncio.sleep(1)
    assert work.done == [B, A, *others]
