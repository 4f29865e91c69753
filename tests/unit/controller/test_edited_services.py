"""P16: an edited Service is reported with the command that repairs it, because the operator has no
permission to change Services.
"""

from typing import Any

import pytest
from dijob import names
from dijob.core.observed.services import parse_service
from dijob.core.options import Options
from dijob.core.render import redis
from dijob.core.render import service as rendered
from samples.builders import Body, job, job_body
from simulator.objects import Target
from simulator.simulated import World, simulated
from unit.controller.test_shared_objects import conditions, edited

SERVICE, OF_REDIS = Target("services", "ns", "job"), Target("services", "ns", "job-mq")
REDIS: Body = {"messageQueue": {"type": "redis"}}
# What the apiserver adds to a Service when it is created (tests/golden/0.1.0).
DEFAULTS: Body = {
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "sessionAffinity": "None",
    "type": "ClusterIP",
}
HEADLESS = rendered.headless_manifests(job(), Options())[0]["spec"]
ORDINARY = {**redis.service_spec("job", 6379), "clusterIP": "10.96.0.7"}
PORT = {"name": "redis", "port": 6379, "protocol": "TCP", "targetPort": 6379}


def fields(spec: Body, wanted: Body) -> tuple[str, ...]:
    """Return the fields of a stored Service that differ from the wanted spec."""
    meta = {"name": "x", "namespace": "ns"}
    routes = [parse_service({"metadata": meta, "spec": one}).route for one in (spec, wanted)]
    assert routes[0]
    assert routes[1]
    return routes[0].differs_from(routes[1])


@pytest.mark.parametrize(
    ("spec", "wanted", "expected"),
    [
        pytest.param(HEADLESS | DEFAULTS, HEADLESS, (), id="as stored"),
        pytest.param(HEADLESS | {"selector": {"app": "x"}}, HEADLESS, ("selector",), id="selector"),
        pytest.param(
            HEADLESS | {"selector": {**HEADLESS["selector"], "a": "b"}},
            HEADLESS,
            ("selector",),
            id="a narrower selector",
        ),
        pytest.param(HEADLESS | {"selector": None}, HEADLESS, ("selector",), id="no selector"),
        pytest.param(
            HEADLESS | {"publishNotReadyAddresses": False},
            HEADLESS,
            ("publishNotReadyAddresses",),
            id="only Ready pods",
        ),
        pytest.param(
            HEADLESS | {"clusterIP": "10.96.0.9"}, HEADLESS, ("clusterIP",), id="a cluster IP"
        ),
        pytest.param(
            HEADLESS | {"clusterIP": "", "type": "ExternalName"},
            HEADLESS,
            ("clusterIP", "type"),
            id="another host",
        ),
        pytest.param(
            HEADLESS | {"ports": [{"port": 1}]}, HEADLESS, (), id="ports of a headless Service"
        ),
        pytest.param(ORDINARY | DEFAULTS | {"ports": [PORT]}, ORDINARY, (), id="Redis"),
        pytest.param(
            ORDINARY | {"ports": [PORT, {"port": 80}], "type": "NodePort"}, ORDINARY, (), id="more"
        ),
        pytest.param(
            ORDINARY | {"ports": [{**PORT, "targetPort": 80}]}, ORDINARY, ("ports",), id="a port"
        ),
    ],
)
def test_fields_that_lead_a_service_elsewhere(
    spec: Body, wanted: Body, expected: tuple[str, ...]
) -> None:
    assert fields(spec, wanted) == expected


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"selector": {names.LABEL_JOB: None, "app": "evil"}}, "selector"),
        ({"clusterIP": "10.0.0.1"}, "clusterIP"),
    ],
)
async def test_an_edited_service_is_reported_until_it_is_deleted(
    spec: dict[str, Any], field: str
) -> None:
    async with simulated(job_body(addressing="Hostname")) as world:
        await world.running()
        assert "ServiceReady" not in conditions(world)
        edited(world, SERVICE, **spec)
        await world.until(lambda: ready(world) == ("False", "ServiceChanged"), 5)
        said = conditions(world)["ServiceReady"].message
        assert f"service job was changed ({field})" in said
        assert "kubectl delete service job" in said
        assert "service job was changed" in world.cluster.job().status.message
        world.cluster.server.remove(SERVICE)
        await world.until(lambda: ready(world) == ("True", "Created"), 30)
        assert world.cluster.server.get(SERVICE)["spec"] == HEADLESS


@pytest.mark.virtual_time
async def test_an_edited_service_of_redis_is_reported_and_no_rank_starts() -> None:
    async with simulated(job_body(**REDIS)) as world:
        await world.running()
        edited(world, OF_REDIS, selector={"app": "evil"})
        await world.until(lambda: broker(world).reason == "ServiceChanged", 5)
        assert "kubectl delete service job-mq" in broker(world).message
        # The running ranks may still have their connections, so they are left alone.
        await world.runs(60)
        assert (world.phase, world.cluster.job().status.restarts) == ("Running", 0)
        world.cluster.server.remove(OF_REDIS)
        await world.until(lambda: broker(world).status == "True", 30)


def ready(world: World) -> tuple[str, str]:
    """Return status and reason of ServiceReady; empty if there is no such condition."""
    found = conditions(world).get("ServiceReady")
    return (found.status, found.reason) if found else ("", "")


def broker(world: World) -> Any:
    return conditions(world)["BrokerReady"]
