"""The figures about a job's time cause no status write of their own, and survive the operator."""

import pytest
from dijob.core.report import goodput
from dijob.core.report.time_spent import TimeSpent, read_time_spent
from dijob.names import Activity
from samples.builders import job_body
from simulator.objects import Target
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

POD = Target("pods", "ns", "job-1")


def figures(world: World) -> TimeSpent:
    job = world.cluster.job()
    created = job.metadata.creation_timestamp
    found = read_time_spent(job.status, created, world.cluster.clock.now())
    assert found
    return found


async def life(world: World, *, restarts: bool = False) -> list[int]:
    """Run a job that loses a rank and is suspended and resumed. Return the numbers of status writes
    after each step.
    """
    found = []

    async def step() -> None:
        if restarts:
            await world.restart()
        await world.settle()
        found.append(len(world.writes("PATCH", "dijobs")))

    await step()
    world.cluster.server.remove(POD)
    await step()
    world.cluster.edit(suspend=True)
    await step()
    world.cluster.edit(suspend=False)
    await step()
    await world.runs(1000)
    await step()
    return found


async def test_counting_the_time_adds_no_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with simulated(job_body()) as world:
        counted = await life(world)
        assert world.cluster.job().status.goodput
    monkeypatch.setattr(goodput, "with_goodput", lambda ctx, status: status)
    async with simulated(job_body()) as world:
        assert await life(world) == counted
        assert not world.cluster.job().status.goodput


@pytest.mark.parametrize("restarts", [False, True], ids=["one operator", "an operator per step"])
async def test_the_figures_of_a_job_that_loses_a_rank_and_is_suspended(restarts: bool) -> None:
    async with simulated(job_body()) as world:
        await life(world, restarts=restarts)
        spent = figures(world)
        assert spent.activity is Activity.RUNNING
        assert spent.seconds[Activity.RUNNING] > 1000
        assert spent.seconds[Activity.WAITING] >= 25
        (lost,) = spent.interruptions
        assert (lost.lost, lost.ranks) == ("1", "1-2")
        assert lost.seconds == spent.seconds[Activity.RECOVERING] > 0
