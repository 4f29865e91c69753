"""C45: a job whose pods are rejected begins soon after the cause is gone, at little cost."""

import pytest
from unit.builders import job_body
from unit.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

MOST_SECONDS = 30.0


async def rejected_for(world: World, seconds: float) -> None:
    """The pods of the job have been rejected for so long."""
    world.cluster.quota = True
    world.cluster.apply(job_body(replicas=6))
    await world.runs(seconds)
    assert not world.cluster.pods


@pytest.mark.parametrize("seconds", [5, 60, 600, 3600])
async def test_it_begins_within_30_s_however_long_it_has_waited(seconds: float) -> None:
    async with simulated() as world:
        await rejected_for(world, seconds)
        world.cluster.quota = False
        await world.until(lambda: len(world.cluster.pods) == 6, MOST_SECONDS)


async def test_it_costs_one_request_per_try_and_no_status() -> None:
    """A thousand such jobs cost 40 requests per second."""
    async with simulated() as world:
        await rejected_for(world, 120)
        creations, statuses = (len(world.writes("POST", "pods")), len(world.writes("PATCH")))
        await world.runs(600)
        assert len(world.writes("POST", "pods")) - creations <= 600 / 25 + 1
        assert len(world.writes("PATCH")) == statuses
