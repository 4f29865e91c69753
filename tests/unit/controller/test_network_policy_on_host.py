"""A job that moves to the host network while it is suspended, and back. Meanwhile its NetworkPolicy
admits all peers. Otherwise it would cut such ranks off from the others.
"""

import copy
from typing import Any

import pytest
from dijob.core.options import Options
from dijob.core.render import policy
from samples.builders import Body, job, job_body, tasks_body
from simulator.objects import Target
from simulator.simulated import World, simulated

virtual = pytest.mark.virtual_time
ISOLATED = Options(isolates=True)
EVERYBODY: list[Body] = [{}]
POLICY = Target("networkpolicies", "ns", "job")


@virtual
async def test_the_policy_admits_all_peers_while_ranks_use_the_host_network() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        own = ingress(world)
        await moved(world, template={"spec": {"hostNetwork": True}})
        await world.running()
        assert ingress(world) == EVERYBODY
        await world.settle()
        assert len(world.writes("PATCH", "networkpolicies")) == 1
        await moved(world, template={"spec": {"hostNetwork": False}})
        await world.running()
        assert ingress(world) == own


@virtual
async def test_one_task_with_host_network_is_enough() -> None:
    """Otherwise the policy would block the learner's traffic, which has a node's address."""
    async with simulated(tasks_body(1, 1, 2), options=ISOLATED) as world:
        await world.running()
        tasks = copy.deepcopy(world.cluster.read("dijobs", "job")["spec"]["tasks"])
        tasks[0]["template"]["spec"]["hostNetwork"] = True
        await moved(world, tasks=tasks)
        await world.running()
        assert ingress(world) == EVERYBODY
        said = {one.type: one for one in world.cluster.job().status.conditions}["SpecWarning"]
        assert "so no policy protects the job" in said.message


@virtual
async def test_an_old_policy_is_not_changed_if_the_operator_uses_none() -> None:
    """Such an operator has no permission to change policies."""
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        world.options = Options()
        await world.restart()
        await moved(world, template={"spec": {"hostNetwork": True}})
        await world.running()
        assert ingress(world) != EVERYBODY
        assert not world.writes("PATCH", "networkpolicies")


def test_the_jobs_rules_are_omitted_if_all_peers_are_admitted() -> None:
    rules: Body = {"ingress": [{"from": [{"namespaceSelector": {}}]}]}
    assert (
        policy.ingress_spec(job({"hostNetwork": True}, networkPolicy=rules))["ingress"] == EVERYBODY
    )


async def moved(world: World, **spec: Any) -> None:
    """Suspend the job, change it, and resume it."""
    world.cluster.edit(suspend=True)
    await world.until(lambda: world.phase == "Suspended")
    await world.settle(10)
    world.cluster.edit(suspend=False, **spec)
    await world.until(lambda: world.phase != "Suspended")


def ingress(world: World) -> list[Body]:
    rules: list[Body] = world.cluster.server.get(POLICY)["spec"]["ingress"]
    return rules
