"""C45: a job with rejected pods starts soon after the cause is gone, and its retries are cheap."""

import pytest
from samples.builders import job_body
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time

MOST_SECONDS = 30.0


async def rejected_for(world: World, seconds: float) -> None:
    """Reconcile until the pods of the job have been rejected for this long."""
    world.cluster.quota = True
    world.cluster.apply(job_body(replicas=6))
    await world.runs(seconds)
    assert not world.cluster.pods


@pytest.mark.parametrize("seconds", [5, 60, 600, 3600])
async def test_a_rejected_job_starts_within_30_s_however_long_it_has_waited(seconds: float) -> None:
    async with simulated() as world:
        await rejected_for(world, seconds)
        world.cluster.quota = False
        await world.until(lambda: len(world.cluster.pods) == 6, MOST_SECONDS)


async def test_a_try_costs_one_request_and_no_status() -> None:
    """A thousand such jobs cost 40 requests per second."""
    async with simulated() as world:
        await rejected_for(world, 120)
        creations, statuses = (len(world.writes("POST", "pods")), len(world.writes("PATCH")))
        await world.runs(600)
        assert len(world.writes("POST", "pods")) - creations <= 600 / 25 + 1
        assert len(world.writes("PATCH")) == statuses
