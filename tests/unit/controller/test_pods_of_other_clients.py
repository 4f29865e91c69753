"""P10: a pod that another client has created with an owner reference to the job is not a rank."""

import copy
from typing import Any

import pytest
from dijob import names
from dijob.core.members import gang_of
from dijob.core.observed.made import made_with
from dijob.core.options import Delivery, Options
from dijob.core.render.pod import pod_manifest
from dijob.names import Launcher
from samples.builders import UID, Body, job, job_body
from simulator.simulated import POD_1, World, simulated
from unit.controller.test_shared_objects import conditions

pytestmark = pytest.mark.virtual_time


def made_by_hand(rank: int, **spec: Any) -> Body:
    """Return a pod with the name of a rank's pod, which the job controls."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "job", "uid": UID}
    labels = {names.MANAGED_BY: names.MANAGER, names.LABEL_JOB: "job", names.LABEL_RANK: str(rank)}
    return {
        "metadata": {
            "name": f"job-{rank}",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "di-container", "image": "x", "command": ["sleep", "9999"]}],
            **spec,
        },
    }


def is_made_by_the_operator(world: World, rank: int) -> bool:
    if f"job-{rank}" not in world.cluster.names_of("pods"):
        return False
    before = world.cluster.read("pods", f"job-{rank}")["spec"].get("initContainers") or ()
    return any(one["name"] == names.GATE_CONTAINER for one in before)


async def test_pods_made_before_a_job_is_resumed_are_replaced() -> None:
    async with simulated(job_body(suspend=True)) as world:
        await world.until(lambda: world.phase == "Suspended")
        await world.operator.stop()
        for rank in range(2):
            world.cluster.create("pods", made_by_hand(rank))
        world.cluster.edit(suspend=False)
        await world.restart()
        await world.running()
        assert all(is_made_by_the_operator(world, rank) for rank in range(3))


async def test_a_foreign_pod_of_a_new_job_is_reported_and_replaced() -> None:
    async with simulated() as world:
        world.cluster.apply(job_body())
        world.cluster.create("pods", made_by_hand(0))
        said = set[str]()

        def replaced() -> bool:
            found = conditions(world).get("AddressesReady") if world.phase else None
            if found:
                said.add(f"{found.reason}: {found.message}")
            return is_made_by_the_operator(world, 0) and world.phase == "Running"

        await world.until(replaced)
        assert any(
            one.startswith("AddressMissing: rank 0: a pod that has its name but was not created by")
            for one in said
        ), said
        await world.settle()
        assert world.cluster.job().status.restarts == 0


async def test_a_foreign_pod_in_the_place_of_a_lost_one_is_replaced() -> None:
    async with simulated(job_body(addressing="Hostname")) as world:
        await world.running()
        await world.operator.stop()
        world.cluster.server.remove(POD_1)
        world.cluster.create("pods", made_by_hand(1))
        await world.restart()
        await world.until(lambda: is_made_by_the_operator(world, 1))
        await world.running()
        assert world.cluster.job().status.restarts == 0


@pytest.mark.parametrize("launcher", Launcher)
@pytest.mark.parametrize("delivery", Delivery)
def test_the_operators_own_pods_are_not_foreign(launcher: Launcher, delivery: Delivery) -> None:
    owner = job(launcher=launcher)
    options = Options(launcher_delivery=delivery)
    body = pod_manifest(owner, gang_of(owner).member(0), options)
    assert not is_foreign(body["spec"])
    without = copy.deepcopy(body["spec"])
    without["initContainers"] = []
    assert is_foreign(without)
    without = copy.deepcopy(body["spec"])
    without["containers"][0]["volumeMounts"] = []
    assert is_foreign(without)


def is_foreign(spec: Body) -> bool:
    return made_with({}, spec, {}).foreign
