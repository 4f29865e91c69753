"""C46: all times of a job are the apiserver's, whatever the operators' machines show."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from dijob.api.status import parse_time
from dijob.kube.server_clock import PERIOD_SECONDS, ServerClock
from dijob.process.clock import Clock
from samples.builders import NOW, job_body, later
from simulator.operator_process import Operator
from simulator.simulated import World, simulated
from simulator.virtual import VirtualClock

AHEAD = 600.0
SKEWS = pytest.mark.parametrize(
    ("first", "second"),
    [(0, AHEAD), (0, -AHEAD), (AHEAD, 0), (-AHEAD, 0), (-AHEAD, AHEAD), (AHEAD, -AHEAD)],
)


class Skewed(VirtualClock):
    """The wall clock of one operator's machine."""

    def __init__(self, world: World, ahead: float) -> None:
        super().__init__(world.cluster.loop)
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self._ahead)


async def takes_over(world: World, ahead: float) -> None:
    """Start another operator, on a machine whose clock is ahead by some seconds."""
    await world.operator.stop()
    of_cluster, world.cluster.clock = world.cluster.clock, Skewed(world, ahead)
    world.operator = Operator(world.cluster, world.line)
    world.cluster.clock = of_cluster
    world.operator.start()


@asynccontextmanager
async def begun_by(ahead: float, **spec: Any) -> AsyncIterator[World]:
    """Yield a job that has run for 10 s and was started by an operator whose clock is ahead."""
    async with simulated(starts=False) as world:
        await takes_over(world, ahead)
        world.cluster.apply(job_body(**spec))
        await world.until(lambda: world.phase == "Running", 30)
        await world.runs(10)
        yield world


@SKEWS
@pytest.mark.virtual_time
async def test_a_takeover_fails_no_job_before_its_deadline(first: float, second: float) -> None:
    async with begun_by(first, activeDeadlineSeconds=300) as world:
        await takes_over(world, second)
        await world.runs(250)
        assert world.phase == "Running"
        await world.until(lambda: world.phase == "Failed", 50)


@SKEWS
@pytest.mark.virtual_time
async def test_a_takeover_deletes_no_finished_job_before_its_time(
    first: float, second: float
) -> None:
    async with begun_by(first, ttlSecondsAfterFinished=300) as world:
        for pod in world.cluster.pods.values():
            pod.end(pod.main, 0)
        await world.until(lambda: world.phase == "Succeeded", 30)
        await takes_over(world, second)
        await world.runs(250)
        assert not world.cluster.gone()
        await world.until(world.cluster.gone, 60)


@pytest.mark.parametrize("ahead", [-AHEAD, AHEAD])
@pytest.mark.virtual_time
async def test_no_time_in_the_status_is_from_the_machines_clock(ahead: float) -> None:
    async with begun_by(ahead) as world:
        status = world.cluster.job().status
        times = [status.start_time, *(one.last_transition_time for one in status.conditions)]
        now = world.cluster.clock.now()
        assert all(NOW <= time <= now for time in map(parse_time, times) if time)


@pytest.mark.virtual_time
async def test_without_the_header_the_machines_clock_is_used() -> None:
    """A proxy may remove the header. A single operator still ends its jobs in time."""
    async with simulated(starts=False) as world:
        world.line.dated = False
        await takes_over(world, AHEAD)
        world.cluster.apply(job_body(activeDeadlineSeconds=60))
        await world.runs(50)
        assert world.phase == "Running"
        await world.until(lambda: world.phase == "Failed", 20)


class Machine(Clock):
    """A machine whose wall clock is ahead by AHEAD, with a time that a test sets."""

    seconds = 0.0

    def now(self) -> datetime:
        return later(self.seconds + AHEAD)

    def monotonic(self) -> float:
        return 50.0 + self.seconds


def date(at: datetime) -> str:
    """Return a Date header, which has whole seconds."""
    return format_datetime(at, usegmt=True)


class Heard:
    """A server clock, and its error after some responses."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.clock = ServerClock(self.machine)

    def hears(self, at: float, server_ahead: float = 0.0, latency: float = 0.0) -> None:
        """Process a response at second `at` from an apiserver whose clock is ahead."""
        asked, self.machine.seconds = self.machine.monotonic() + at - self.machine.seconds, at
        self.machine.seconds = at + latency
        self.clock.answered(date(later(at + server_ahead)), asked)

    @property
    def off(self) -> float:
        return (self.clock.now() - later(self.machine.seconds)).total_seconds()


def test_one_response_is_enough_and_more_are_more_exact() -> None:
    heard = Heard()
    assert heard.off == AHEAD
    heard.hears(0.4)
    assert 0.0 <= heard.off <= 1.0
    for tenth in range(1, 30):
        heard.hears(tenth + tenth / 10)
    assert 0.0 <= heard.off <= 0.1


def test_a_slow_response_does_not_set_the_clock_back() -> None:
    heard = Heard()
    heard.hears(1.0)
    heard.hears(2.0, latency=25.0)
    assert -1.0 <= heard.off <= 1.0


def test_if_apiservers_differ_the_slowest_is_used_without_jumps(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard = Heard()
    heard.hears(0.0)
    offs = set()
    for second in range(1, 600):
        heard.hears(float(second), server_ahead=30.0 if second % 2 else 0.0)
        offs.add(round(heard.off))
    assert offs <= {0, 1}


@pytest.mark.parametrize("set_by", [-3600.0, 3600.0])
def test_a_step_of_the_apiservers_clock_is_followed(set_by: float) -> None:
    heard = Heard()
    for second in range(100):
        heard.hears(float(second))
    for second in range(100, 100 + int(2 * PERIOD_SECONDS) + 1):
        heard.hears(float(second), server_ahead=set_by)
    assert heard.off == pytest.approx(set_by, abs=1.0)


@pytest.mark.parametrize("text", ["", "yesterday", "Thu, 99 Foo 2026 12:00:00 GMT", "1" * 50])
def test_an_invalid_date_is_ignored(text: str) -> None:
    heard = Heard()
    heard.clock.answered(text, 0.0)
    assert heard.off == AHEAD


def test_a_machine_whose_clock_is_wrong_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    heard = Heard()
    for second in range(300):
        heard.hears(float(second))
    assert caplog.text.count("this machine's clock differs by +") == 1
    assert f"{AHEAD:.0f} s" in caplog.text or f"{AHEAD - 1:.0f} s" in caplog.text
