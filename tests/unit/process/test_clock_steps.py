"""A step of the operator's wall clock does not change how long it waits.

The operator uses its own clock only if a proxy removes the Date header of the apiserver's
responses.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from dijob.controller.observe.memory import JobMemory
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core.observed.views import ApiRejection, Creation, RejectionCause
from dijob.process.clock import StepClock
from samples.builders import NOW, job_body, later
from simulator.operator_process import Operator
from simulator.simulated import World, simulated
from simulator.virtual import VirtualClock

HOUR = 3600.0
STEPS = pytest.mark.parametrize("step", [-HOUR, 0.0, HOUR], ids=["back", "not at all", "ahead"])
virtual_time = pytest.mark.virtual_time


class Settable(VirtualClock):
    """A wall clock that is ahead of the cluster's by some seconds."""

    ahead = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)


@asynccontextmanager
async def settable() -> AsyncIterator[tuple[World, Settable]]:
    """Yield a cluster, and a clock that only its operator uses."""
    async with simulated(starts=False) as world:
        world.line.dated = False
        clock = Settable(world.cluster.loop)
        of_cluster, world.cluster.clock = world.cluster.clock, clock
        world.operator = Operator(world.cluster, world.line)
        world.cluster.clock = of_cluster
        world.operator.start()
        await world.operator_alone(1)
        yield world, clock


@STEPS
@virtual_time
async def test_after_a_step_a_lost_pod_is_replaced_at_once(step: float) -> None:
    async with settable() as (world, clock):
        world.cluster.apply(job_body())
        await world.running()
        clock.ahead = step
        lost = world.cluster.pod("job-1")
        world.cluster.delete(lost)
        await world.until(lambda: lost.uid not in world.cluster.pods)
        await world.until(lambda: "job-1" in world.cluster.names_of("pods"), 5)


@STEPS
@virtual_time
async def test_after_a_step_a_rejected_creation_is_retried_in_time(step: float) -> None:
    async with settable() as (world, clock):
        world.cluster.quota = True
        world.cluster.apply(job_body())
        await world.runs(10)
        clock.ahead = step
        world.cluster.quota = False
        await world.until(lambda: world.cluster.names_of("pods"), 60)


@STEPS
@virtual_time
async def test_after_a_step_a_new_job_has_its_first_status_in_time(step: float) -> None:
    async with settable() as (world, clock):
        world.nodes.room = 0  # so that no status is urgent
        world.cluster.apply(job_body())
        await world.operator_alone(1)
        clock.ahead = step
        await world.operator_alone(10)
        assert world.phase == "Pending"


def test_a_step_shifts_all_times_of_a_memory() -> None:
    memory = JobMemory(first_seen=NOW)
    memory.rejections = {
        "pod/a": ApiRejection(RejectionCause.FORBIDDEN, "no", later(4), since=NOW),
        "pod/b": ApiRejection(RejectionCause.TAKEN, "no", later(5)),
    }
    memory.creations = {"a": Creation(2, NOW, rejected="NodePorts")}
    memory.list_seen = {("a", 1): NOW}
    memory.reminded = {("a", 1): later(1)}
    memory.pods.due = {"a": NOW}
    memory.move(timedelta(seconds=-60))
    assert memory == JobMemory(
        rejections={
            "pod/a": ApiRejection(RejectionCause.FORBIDDEN, "no", later(-56), since=later(-60)),
            "pod/b": ApiRejection(RejectionCause.TAKEN, "no", later(-55)),
        },
        creations={"a": Creation(2, later(-60), rejected="NodePorts")},
        list_seen={("a", 1): later(-60)},
        reminded={("a", 1): later(-59)},
        pods=PodMemory(due={"a": later(-60)}),
        first_seen=later(-60),
    )


@virtual_time
async def test_a_step_is_reported_once_before_the_next_time_is_returned(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with simulated() as world:
        of_operator, told = Settable(world.cluster.loop), list[float]()
        clock = StepClock(of_operator, lambda by: told.append(by.total_seconds()))
        for ahead in (0.0, 1.9, -HOUR, -HOUR, -HOUR + 1, 5.0):
            of_operator.ahead = ahead
            await world.operator_alone(100)
            assert clock.now() == of_operator.now()
        assert told == [-HOUR, HOUR + 5]
        assert "the clock stepped by -3600 s" in caplog.text
