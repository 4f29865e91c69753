"""The limit of concurrent writes with an apiserver that becomes slow or overloaded."""

import asyncio
from dataclasses import dataclass, field

import pytest
from dijob.core.pace import FIRST_WINDOW, LEAST_REFUSED, LEAST_SLOW, MOST_WINDOW
from dijob.kube.slots import Slots
from simulator.virtual import VirtualClock

pytestmark = pytest.mark.virtual_time


@dataclass
class Line:
    """Concurrent writes in some namespaces. Each takes `seconds`; more than `room` at a time are
    rejected with 429.
    """

    slots: Slots
    seconds: float = 0.02
    room: int = 1_000
    again: float = 0.0
    now: int = 0
    most: int = 0
    refused: list[float] = field(default_factory=list)

    async def write(self, namespace: str) -> None:
        async with self.slots.of(namespace):
            began = self.slots._clock.monotonic()
            self.now += 1
            self.most = max(self.most, self.now)
            fits = self.now <= self.room
            await asyncio.sleep(self.seconds)
            self.now -= 1
            if fits:
                self.slots.answered(began)
            else:
                self.refused.append(began)
                self.slots.refused(began, self.again)

    async def send(self, count: int, namespaces: int = 4) -> int:
        """Send some writes. Return how many of them ran at the same time."""
        self.most = 0
        await asyncio.gather(*(self.write(f"ns-{n % namespaces}") for n in range(count)))
        return self.most


@pytest.fixture
async def line() -> Line:
    return Line(Slots(2.0, VirtualClock(asyncio.get_running_loop())))


async def test_a_quick_apiserver_increases_the_limit(line: Line) -> None:
    assert await line.send(FIRST_WINDOW) == FIRST_WINDOW
    await line.send(3_000)
    assert await line.send(200) == MOST_WINDOW


async def test_one_namespace_has_half_of_the_limit(line: Line) -> None:
    assert await line.send(FIRST_WINDOW, namespaces=1) == FIRST_WINDOW / 2


async def test_few_concurrent_writes_do_not_increase_the_limit(line: Line) -> None:
    for _ in range(2_000):
        await line.send(2)
    assert line.slots.window.size == FIRST_WINDOW


async def test_a_slow_apiserver_decreases_the_limit_until_it_recovers(
    line: Line,
) -> None:
    line.seconds = 1.2
    await line.send(400)
    assert await line.send(100) == LEAST_SLOW
    line.seconds = 0.02
    await line.send(2_000)
    assert await line.send(100) > FIRST_WINDOW


async def test_429s_decrease_the_limit_to_what_the_apiserver_accepts(line: Line) -> None:
    line.room = 5
    await line.send(200)
    line.refused.clear()
    await line.send(500)
    assert line.slots.window.size <= 2 * line.room
    assert len(line.refused) < 500 / 4


async def test_a_round_of_429s_counts_once(line: Line) -> None:
    line.room = 0
    await line.send(FIRST_WINDOW)
    assert line.slots.window.size == FIRST_WINDOW / 2
    await line.send(500)
    assert line.slots.window.size == LEAST_REFUSED


async def test_no_write_starts_before_retry_after(line: Line) -> None:
    line.room, line.again = 0, 5.0
    await line.write("ns-0")
    line.room = 1_000
    began, loop = line.refused[0], asyncio.get_running_loop()
    await asyncio.gather(*(line.write(f"ns-{n}") for n in range(10)))
    assert 1000.0 + loop.time() - began >= line.again


async def test_a_write_that_is_cancelled_while_waiting_takes_no_slot(line: Line) -> None:
    line.seconds = 1.0
    writes = [asyncio.create_task(line.write(f"ns-{n % 4}")) for n in range(100)]
    await asyncio.sleep(0.1)
    for write in writes:
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    assert line.slots._quick.used == 0
    line.now, line.seconds = 0, 0.02
    assert await line.send(FIRST_WINDOW) == FIRST_WINDOW


async def test_writes_that_hang_in_a_namespace_free_their_slots_for_others(line: Line) -> None:
    line.seconds = 30.0
    hanging = [asyncio.create_task(line.write("hangs")) for _ in range(100)]
    await asyncio.sleep(2.1)
    line.seconds = 0.02
    assert await line.send(FIRST_WINDOW) - line.slots.each == FIRST_WINDOW
    for write in hanging:
        write.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
