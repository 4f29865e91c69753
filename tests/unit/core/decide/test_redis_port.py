"""The port of a job's own Redis server: the CRD keeps it, and a Service with another port is
reported.
"""

import pytest
from dijob.core.observed import parse
from dijob.core.options import Options
from dijob.core.render import redis, service
from dijob.crd.rules import RULES
from samples.builders import Body, job, job_body
from simulator.simulated import World, simulated

REDIS: Body = {"messageQueue": {"type": "redis"}}
OTHER: Body = {"messageQueue": {"type": "redis", "port": 7000}}


def of_server(**spec: Body) -> Body:
    """Return the Service of the job's own Redis server."""
    return next(
        one for one in redis.server_manifests(job(**spec), Options()) if one["kind"] == "Service"
    )


def test_the_port_is_immutable_even_while_the_job_is_suspended() -> None:
    (rule,) = [rule for rule in RULES[""] if rule.field == ".spec.messageQueue.port"]
    assert "create a job with a different name" in rule.message
    assert ".?port.orValue(6379) == " in rule.rule


@pytest.mark.parametrize(
    ("there", "wanted", "found"),
    [
        pytest.param(of_server(**REDIS), of_server(**REDIS), None, id="the desired port"),
        pytest.param(of_server(**REDIS), of_server(**OTHER), (6379, 7000), id="the old one's"),
        pytest.param({"kind": "Service"}, of_server(**OTHER), (0, 7000), id="none"),
        pytest.param(
            {"kind": "Service", "spec": {"ports": [{"port": 80}, {"port": 7000}]}},
            of_server(**OTHER),
            None,
            id="one among others, by hand",
        ),
        pytest.param(
            {"kind": "Service", "spec": {"ports": [{"port": 1}]}},
            service.headless_manifests(job(), Options())[0],
            None,
            id="a headless service, whose port does not matter",
        ),
    ],
)
def test_whether_a_service_has_the_port_that_the_ranks_use(
    there: Body, wanted: Body, found: tuple[int, int] | None
) -> None:
    assert parse.other_port(there, wanted) == found


@pytest.mark.virtual_time
async def test_a_service_with_another_port_blocks_the_ranks_and_is_reported() -> None:
    """The CRD's rule allows another port in two steps: remove the queue, then add it again."""
    async with simulated(job_body(**REDIS)) as world:
        await resumed_with_another_port(world)
        await world.until(lambda: broker(world)[0] == "OtherPort")
        said = broker(world)[1]
        assert "service job-mq has port 6379, but spec.messageQueue.port is 7000" in said
        assert "kubectl delete networkpolicy,service job-mq" in said
        await world.runs(200)
        assert (world.phase, world.cluster.job().status.restarts) == ("Pending", 0)
        world.cluster.remove("networkpolicies", "job-mq")
        world.cluster.remove("services", "job-mq")
        await world.until(lambda: world.phase == "Running", 120)
        rule = world.cluster.read("networkpolicies", "job-mq")["spec"]["ingress"][0]
        assert rule["ports"][0]["port"] == 7000
        assert world.cluster.read("services", "job-mq")["spec"]["ports"][0]["port"] == 7000


async def resumed_with_another_port(world: World) -> None:
    await world.running()
    world.cluster.edit(suspend=True)
    await world.until(lambda: world.phase == "Suspended")
    await world.settle(10)
    world.cluster.edit(suspend=False, **OTHER)


def broker(world: World) -> tuple[str, str]:
    """Return reason and message of the condition about the server."""
    found = {one.type: one for one in world.cluster.job().status.conditions}["BrokerReady"]
    return found.reason, found.message
