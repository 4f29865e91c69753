"""kill -9 around each write, in jobs whose pods get their peer lists through the channel.

The launchers reconnect to the next operator. `make faults CHANNEL=1` runs all scenarios. (A
separate file, because workers run whole files.)
"""

import pytest
from faults.lab.crashes import Scenario, killed_at_each_write
from faults.lab.kube import jobs
from faults.lab.lane import Lanes
from faults.lab.scenarios import RENEWAL, START

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("scenario", [START, RENEWAL], ids=lambda scenario: scenario.name)
async def test_killed_at_each_write(scenario: Scenario, channel_lanes: Lanes) -> None:
    await killed_at_each_write(scenario, channel_lanes)


async def test_no_write_is_needed_for_a_peer_list(channel_lanes: Lanes) -> None:
    """Also in a job with tasks, whose pods have other names."""
    async with channel_lanes() as lane:
        assert lane.channel
        await lane.apply("a")
        body = lane.body("b")
        template = body["spec"].pop("template")
        for field in ("minReplicas", "maxReplicas"):
            del body["spec"][field]
        body["spec"]["tasks"] = [
            {"type": "learner", "replicas": 1, "template": template},
            {"type": "collector", "replicas": 2, "template": template},
        ]
        await lane.kube.create(jobs(lane.namespace), body)
        for name in ("a", "b"):
            await lane.reaches(name, "Running")
        assert await lane.channel.launchers.received() == 4 + 3, lane.evidence()
        written = [str(one) for one in lane.proxy.writes if "/pods" in one.path]
        assert [one for one in written if not one.startswith("POST ")] == []
