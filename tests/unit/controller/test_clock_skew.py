"""Clocks of nodes and of the API server that are ahead of the operator's, without a Date header to
correct it. No wait takes longer because of that.
"""

from datetime import datetime, timedelta

import pytest
from dijob.api.status import GivenBack, Status, format_time
from dijob.core.membership.capacity import RETRY_SECONDS, seconds_until_retry
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.observed.views import ARRIVAL, Pod, pod_age
from samples.builders import NOW, gang, job_body, later, observed, view, world_of
from simulator.operator_process import Operator
from simulator.simulated import simulated
from simulator.virtual import VirtualClock

WINDOW = 10.0


@pytest.mark.virtual_time
@pytest.mark.parametrize("behind", [0, 5, 300, 3600])
async def test_an_elastic_job_starts_when_its_window_is_over(behind: int) -> None:
    class Behind(VirtualClock):
        def now(self) -> datetime:
            return super().now() - timedelta(seconds=behind)

    async with simulated(starts=False) as world:
        world.line.dated = False
        of_cluster, world.cluster.clock = world.cluster.clock, Behind(world.cluster.loop)
        world.operator = Operator(world.cluster, world.line)
        world.cluster.clock = of_cluster
        world.nodes.room = 2
        world.operator.start()
        world.cluster.apply(job_body(replicas=3, minReplicas=1, maxReplicas=3))
        took = await world.until(lambda: world.phase == "Running", 30)
        assert took > WINDOW


def left(pod: Pod, seen: float) -> float:
    """Return for how many seconds the window stays open for a pod that was seen to have arrived
    `seen` seconds ago.
    """
    what = observed(pod, list_seen={(pod.uid, ARRIVAL): later(-seen)})
    world = world_of(gang(size=3, minimum=1), what, Status(), NOW)
    return Rendezvous(world, what, WINDOW, NOW).seconds_left


AHEAD = later(3600).isoformat()
PLACED = view(0, created=AHEAD, placed=AHEAD)


@pytest.mark.parametrize(("seen", "waits"), [(0.0, WINDOW), (4.0, 6.0), (11.0, 1.0)])
def test_the_window_counts_from_when_a_rank_was_seen_to_have_arrived(
    seen: float, waits: float
) -> None:
    assert left(PLACED, seen) == waits


def test_an_arrival_in_the_past_counts_whenever_it_was_seen() -> None:
    """For example after a restart of the operator."""
    arrived = view(0, created=NOW.isoformat(), placed=later(-4).isoformat())
    assert left(arrived, 0) == 6.0


def test_the_age_of_a_pod_is_never_negative() -> None:
    assert pod_age(PLACED, NOW) == 0.0


@pytest.mark.parametrize(
    ("until", "left"), [(200.0, 200.0), (RETRY_SECONDS[1] * 1.5, 900.0), (3600.0, 0.0)]
)
def test_a_job_that_released_its_capacity_waits_at_most_for_the_longest_pause(
    until: float, left: float
) -> None:
    """The clock was set back after the release was stored."""
    status = Status(given_back=GivenBack(count=1, until=format_time(later(until))))
    assert seconds_until_retry(status, NOW) == left
