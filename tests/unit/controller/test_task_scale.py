"""The last task of a job is scaled: no other rank restarts, and no size is lost."""

import pytest
from dijob import names
from dijob.names import Topology
from samples.builders import Body, recorded, tasks_body
from simulator.connection import Fault
from simulator.simulated import World, simulated

pytestmark = pytest.mark.virtual_time


def processes(world: World) -> dict[int, str]:
    """Return the process of each rank by the uid of its pod and its number of starts."""
    return {one.rank: f"{one.uid} {one.env['DI_LIST_NUMBER']}" for one in world.cluster.processes}


async def has(world: World, ranks: int) -> Body:
    """Wait until the job runs with this number of ranks, and return its spec."""
    await world.until(
        lambda: (
            world.phase == "Running"
            and len(world.cluster.processes) == ranks
            and world.cluster.job().status.ready_replicas == ranks
        )
    )
    await world.settle()
    spec: Body = world.cluster.read(names.PLURAL, "job")["spec"]
    assert spec["replicas"] == world.cluster.job().spec.scale
    return spec


@pytest.mark.parametrize("topology", Topology)
async def test_scaling_the_collectors_restarts_no_other_rank(topology: Topology) -> None:
    async with simulated(tasks_body(1, 1, 3, topology=topology.value)) as world:
        await has(world, 5)
        before = processes(world)
        world.cluster.edit(replicas=1)
        await has(world, 3)
        assert processes(world).items() <= before.items()
        world.cluster.edit(replicas=4)
        spec = await has(world, 6)
        kept = {rank: before[rank] for rank in range(3)}
        assert {rank: processes(world)[rank] for rank in kept} == kept
        assert (spec["replicas"], spec["tasks"][-1]["replicas"]) == (4, 3)


async def test_an_autoscaler_and_a_user_write_at_the_same_time() -> None:
    """The operator's write conflicts with the autoscaler's; then the user's value applies."""
    async with simulated(tasks_body(1, 1, 3)) as world:
        spec = await has(world, 5)
        world.cluster.edit(tasks=[*spec["tasks"][:-1], spec["tasks"][-1] | {"replicas": 2}])
        world.cluster.edit(replicas=5)
        assert (await has(world, 4))["replicas"] == 2
        # The autoscaler has the last word.
        world.cluster.edit(replicas=5)
        assert (await has(world, 7))["replicas"] == 5


@pytest.mark.parametrize("done", [False, True], ids=["not executed", "executed"])
@pytest.mark.parametrize("status", [0, 409, 503])
async def test_a_failed_write_of_the_size_is_repeated(status: int, done: bool) -> None:
    async with simulated(tasks_body(1, 1, 1)) as world:
        spec = await has(world, 3)
        world.line.faults.append(Fault("PATCH", names.PLURAL, status, done=done))
        world.cluster.edit(tasks=[*spec["tasks"][:-1], spec["tasks"][-1] | {"replicas": 3}])
        assert (await has(world, 5))["replicas"] == 3


async def test_the_sum_that_an_older_operator_has_written_is_replaced() -> None:
    async with simulated(tasks_body(1, 1, 2)) as world:
        await has(world, 4)
        meta = {"annotations": {names.ANNOTATION_LAST_TASK: None}}
        world.cluster.patch(names.PLURAL, "job", {"metadata": meta, "spec": {"replicas": 4}})
        before = processes(world)
        assert (await has(world, 4))["replicas"] == 2
        assert processes(world) == before


async def test_a_size_that_the_user_gives_at_the_start_is_kept() -> None:
    async with simulated(tasks_body(1, 1, 1, replicas=3)) as world:
        assert (await has(world, 5))["tasks"][-1]["replicas"] == 1


async def test_a_scaled_job_needs_no_further_write() -> None:
    async with simulated(recorded(tasks_body(1, 1, 2, replicas=3), "collector 2")) as world:
        await has(world, 5)
        assert not [
            one
            for one in world.writes("PATCH")
            if one.target.plural == names.PLURAL and not one.target.sub
        ]
