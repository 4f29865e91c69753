"""kill -9 around each write of a start, of both ends and of a renewal.

The state machine has the same kills (docs/decisions/018-what-is-shown-where.md), so `make test` has
those alone that have most writes of different kinds.
"""

import pytest
from faults.conftest import Lanes
from faults.crashes import REPLICAS, Scenario, killed_at_each_write
from faults.ends import exits, succeed
from faults.kube import pods
from faults.lane import Lane

pytestmark = pytest.mark.apiserver


async def start(lane: Lane, job: str) -> None:
    await lane.apply(job, REPLICAS)


async def start_with_redis(lane: Lane, job: str) -> None:
    await lane.apply(job, REPLICAS, messageQueue={"type": "redis"})


async def fail(lane: Lane, job: str) -> None:
    await exits(lane, f"{job}-2", 1, 0)


async def lose_a_pod(lane: Lane, job: str) -> None:
    """Somebody deletes a pod by hand, and nobody tells the operator."""
    await lane.kube.delete(pods(lane.namespace, f"{job}-1"))


SCENARIOS = (
    Scenario("start", start, "Running", REPLICAS, started=False),
    # Rank 1 comes back, and those that dial it are renewed in their pods. (Where there is no
    # launcher they are made anew: 11 writes, no wrong point either, and two minutes more; the state
    # machine has those kills.)
    Scenario("renewal", lose_a_pod, "Running", REPLICAS + 1),
)
LONG = (
    # With its own server: a pod, a service, a network policy more.
    Scenario("redis", start_with_redis, "Running", REPLICAS + 1, started=False),
    Scenario("success", succeed, "Succeeded", REPLICAS, spec=(("cleanPodPolicy", "All"),)),
    Scenario("failure", fail, "Failed", REPLICAS, spec=(("backoffLimit", 0),)),
)


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *(pytest.param(scenario, marks=pytest.mark.long) for scenario in LONG)],
    ids=lambda scenario: scenario.name,
)
async def test_killed_at_each_write(scenario: Scenario, lanes: Lanes) -> None:
    await killed_at_each_write(scenario, lanes)
