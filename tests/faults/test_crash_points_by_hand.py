"""kill -9 around each write of what a user does to a running job, and of what time does to an ended
one.
"""

import pytest
from faults.conftest import Lanes
from faults.crashes import REPLICAS, Scenario, killed_at_each_write
from faults.ends import succeed
from faults.kube import jobs
from faults.lane import Lane

pytestmark = pytest.mark.apiserver


async def edit(lane: Lane, job: str, **spec: object) -> None:
    await lane.kube.patch(jobs(lane.namespace, job), {"spec": spec})


async def grow(lane: Lane, job: str) -> None:
    await edit(lane, job, replicas=REPLICAS + 2)


async def shrink(lane: Lane, job: str) -> None:
    await edit(lane, job, replicas=REPLICAS - 2)


async def suspend(lane: Lane, job: str) -> None:
    await edit(lane, job, suspend=True)


async def suspended(lane: Lane, job: str) -> None:
    """And all that comes with it is written."""
    await suspend(lane, job)

    async def left() -> str:
        status = await lane.status(job)
        done = status.get("phase") == "Suspended" and status.get("replicas") == 0
        return "" if done else str(status.get("message"))

    await lane.until(f"{job} has no pods", left)


async def resume(lane: Lane, job: str) -> None:
    await edit(lane, job, suspend=False)


ELASTIC = (("minReplicas", 1), ("maxReplicas", 8), ("replicas", REPLICAS))
SCENARIOS = (Scenario("resume", resume, "Running", 2 * REPLICAS, before=suspended),)
LONG = (
    Scenario("growth", grow, "Running", REPLICAS + 2, spec=ELASTIC),
    Scenario("shrinkage", shrink, "Running", REPLICAS, spec=ELASTIC),
    Scenario("suspend", suspend, "Suspended", REPLICAS),
    # It ends well, and is gone, with all that belonged to it.
    Scenario("time-to-live", succeed, None, REPLICAS, spec=(("ttlSecondsAfterFinished", 1),)),
)


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *(pytest.param(scenario, marks=pytest.mark.long) for scenario in LONG)],
    ids=lambda scenario: scenario.name,
)
async def test_killed_at_each_write(scenario: Scenario, lanes: Lanes) -> None:
    await killed_at_each_write(scenario, lanes)
