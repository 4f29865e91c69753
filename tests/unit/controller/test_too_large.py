"""A job that is almost as large as etcd allows: its status cannot be stored."""

import logging

import pytest
from dijob import names
from dijob.kube.api import RequestError
from samples.builders import container, job_body
from simulator.connection import Fault
from simulator.objects import Body
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time
LARGE: list[Body] = [container(args=["x" * 110_000] * 12)]
ETCD = "etcdserver: request is too large"


def refuse(world: World, times: int) -> None:
    world.line.faults.append(Fault("PATCH", names.PLURAL, 500, times, message=ETCD))


def events(world: World) -> list[Body]:
    return [
        body
        for key, body in world.cluster.server.objects.items()
        if key.plural == "events" and body["reason"] == "TooLarge"
    ]


async def test_no_pod_is_created_before_the_status_of_a_large_job_is_stored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with simulated(job_body(pod={"containers": LARGE}), starts=False) as world:
        refuse(world, 5)
        world.operator.start()
        await world.until(lambda: events(world))
        assert world.writes("POST", "pods") == []
        (event,) = events(world)
        assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "job")
        assert "ConfigMap" in event["message"]
        # The status fits after all: the job runs without a change.
        await world.running()
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []
        assert any("the job is too large" in record.getMessage() for record in caplog.records)


async def test_a_status_that_has_become_too_large_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with simulated(job_body()) as world:
        await world.running()
        refuse(world, 3)
        world.cluster.remove("pods", "job-1")
        await world.until(lambda: events(world))
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(
    ("status", "message", "large"),
    [
        (500, ETCD, True),
        (
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max"
            " (2100000 vs. 2097152)",
            True,
        ),
        (413, "Request entity too large: limit is 3145728", True),
        (500, "etcdserver: leader changed", False),
        (422, "the request is too large", False),
    ],
)
def test_errors_about_the_size_are_recognized(status: int, message: str, large: bool) -> None:
    assert RequestError(status, "", message).too_large is large
