"""Namespaces share the queue: neither many jobs nor hanging runs in one namespace delay another."""

import asyncio

import pytest
from dijob.controller.queue import workqueue
from dijob.controller.queue.workqueue import Key, WorkQueue
from fakes.queued import A, Worker, started, turns, until


def crowd(count: int, namespace: str = "crowded") -> list[Key]:
    return [(namespace, f"job-{number}") for number in range(count)]


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
async def test_five_hundred_jobs_in_one_namespace_do_not_delay_others(background: bool) -> None:
    work = Worker()
    queue = WorkQueue(work, workers=1)
    for key in (*crowd(500), ("other", "a"), ("other", "b"), ("third", "c")):
        queue.add(key, background)
    queue.release()
    async with started(queue):
        await until(lambda: len(work.done) == 503, lambda: work.done)
    first = crowd(3)
    assert work.done[:6] == [
        first[0],
        ("other", "a"),
        ("third", "c"),
        first[1],
        ("other", "b"),
        first[2],
    ]
    assert [key for key in work.done if key[0] == "crowded"] == crowd(500)


async def test_runs_that_hang_in_a_namespace_leave_workers_to_others() -> None:
    work = Worker()
    queue = WorkQueue(work)
    for key in crowd(500):
        work.gates[key] = asyncio.Event()
        queue.add(key)
    async with started(queue):
        await until(
            lambda: len(work.running) == workqueue.WORKERS_PER_NAMESPACE, lambda: work.running
        )
        queue.add(A)
        await until(lambda: work.done == [A], lambda: work.done)
        await turns()
        assert len(work.running) == workqueue.WORKERS_PER_NAMESPACE
        for gate in work.gates.values():
            gate.set()
        await until(lambda: len(work.done) == 501, lambda: len(work.done))


async def test_runs_that_hang_in_many_namespaces_do_not_delay_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workqueue, "SLOW_SECONDS", 0.001)
    work = Worker()
    queue = WorkQueue(work, workers=2)
    hanging = [(f"ns-{number}", "a") for number in range(20)]
    for key in hanging:
        work.gates[key] = asyncio.Event()
        queue.add(key)
    queue.add(A)
    async with started(queue):
        await until(lambda: work.done == [A], lambda: work.running)
        assert set(work.running) == set(hanging)
        for gate in work.gates.values():
            gate.set()
        await until(lambda: len(work.done) == 21, lambda: len(work.done))
    assert (queue._running, queue._slow, queue._busy, len(queue._line)) == (set(), set(), {}, 0)
