"""H17: which pods are re-created after a back-off, and how that is reported."""

import pytest
from dijob.core.observed import creations
from dijob.core.observed.views import Creation
from samples.builders import (
    NOW,
    Body,
    all_run,
    conditions_of,
    job,
    job_body,
    later,
    observed,
    plan,
    running,
)
from simulator.simulated import World, simulated

TWO: Body = {"minReplicas": 2, "maxReplicas": 8, "replicas": 2}


async def whole(world: World, size: int, within: float) -> float:
    return await world.until(
        lambda: len(world.cluster.processes) == size == world.cluster.job().status.ready_replicas,
        within,
    )


async def lose(world: World, name: str) -> None:
    """Delete a pod, and wait until it is gone."""
    lost = world.cluster.pod(name)
    world.cluster.delete(lost)
    await world.until(lambda: lost.uid not in world.cluster.pods)


@pytest.mark.virtual_time
async def test_an_autoscaler_that_scales_up_and_down_causes_no_back_off() -> None:
    """The eighth time took 48 s, and no message explained it."""
    async with simulated(job_body(**TWO)) as world:
        await whole(world, 2, 30)
        for _ in range(10):
            world.cluster.scale(4)
            await whole(world, 4, 20)
            world.cluster.scale(2)
            await whole(world, 2, 20)


@pytest.mark.virtual_time
async def test_a_gang_restart_in_another_size_causes_no_back_off() -> None:
    never = {"restartPolicy": "Never"}
    async with simulated(job_body(never, restart={"scope": "Job"}, **TWO)) as world:
        await whole(world, 2, 30)
        for _ in range(6):
            world.cluster.scale(3)
            await whole(world, 3, 20)
            world.cluster.scale(2)
            await whole(world, 2, 20)


@pytest.mark.virtual_time
async def test_a_scale_down_resets_the_back_off_of_a_pod() -> None:
    async with simulated(job_body(**TWO | {"replicas": 3})) as world:
        await whole(world, 3, 30)
        for _ in range(5):
            await lose(world, "job-2")
            await whole(world, 3, 60)
        world.cluster.scale(2)
        await whole(world, 2, 20)
        world.cluster.scale(3)
        assert await whole(world, 3, 30) < 10


@pytest.mark.virtual_time
async def test_repeated_suspensions_cause_no_back_off() -> None:
    async with simulated(job_body()) as world:
        for _ in range(6):
            await whole(world, 3, 20)
            world.cluster.edit(suspend=True)
            await world.until(lambda: not world.cluster.pods, 20)
            world.cluster.edit(suspend=False)


@pytest.mark.virtual_time
async def test_a_pod_that_is_lost_repeatedly_is_reported_with_its_back_off() -> None:
    async with simulated(job_body()) as world:
        for _ in range(4):
            await whole(world, 3, 60)
            await lose(world, "job-1")
        await world.until(lambda: "re-created" in world.cluster.job().status.message, 5)
        said = world.cluster.job().status.message
        assert (
            "rank 1: its pod was lost several times in a row, and will be re-created at 20" in said
        )


def test_the_back_off_is_reported_with_its_end() -> None:
    two = [pod for pod in all_run(running()) if pod.rank != 2]
    seen = observed(*two, creations={"job-2": Creation(4, NOW)})
    said = conditions_of(plan(running(), seen, later(2)))["PodsCreated"]
    assert (said.status, said.reason) == ("False", "BackOff")
    assert said.message == (
        "2 of 3 pods exist; rank 2: its pod was lost several times in a row, and will be re-created"
        " at 2026-05-04T12:00:08Z"
    )


def test_the_reason_of_a_node_that_rejects_a_pod_takes_precedence_over_the_back_off() -> None:
    two = [pod for pod in all_run(running()) if pod.rank != 2]
    seen = observed(*two, creations={"job-2": Creation(4, NOW, rejected="NodePorts: no")})
    said = conditions_of(plan(running(), seen, later(2)))["PodsCreated"]
    assert said.reason == "Creating"
    assert said.message.endswith("will be re-created at 2026-05-04T12:00:08Z")


@pytest.mark.parametrize(
    ("count", "passed", "reported"),
    [(1, 0, False), (2, 0, False), (3, 0, True), (3, 5, False), (9, 59, True), (9, 60, False)],
)
def test_a_short_back_off_is_not_reported(count: int, passed: float, reported: bool) -> None:
    assert bool(creations.paused_until(Creation(count, NOW), later(passed))) == reported


def test_the_back_off_of_the_jobs_redis_server_is_reported_too() -> None:
    owner = job(messageQueue={"type": "redis"})
    seen = observed(*all_run(owner), creations={"job-mq": Creation(4, NOW)})
    said = conditions_of(plan(owner, seen, later(7)))["BrokerReady"]
    assert (said.reason, said.message) == (
        "NotRunning",
        "pod job-mq was lost several times in a row, and will be re-created at"
        " 2026-05-04T12:00:08Z",
    )
