"""Restart policies of single containers (Kubernetes 1.35, KEP-5307) are rejected, because the
operator uses the policy of the pod. A job that already runs with one is left alone.
"""

import pytest
from dijob.api.problems import SpecError
from samples.builders import Body, container, job, job_body
from simulator.simulated import simulated

RULES: list[Body] = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
SIDE: Body = {"name": "side", "image": "x"}
AT = "spec.template.spec.containers"


@pytest.mark.parametrize(
    ("containers", "field"),
    [
        pytest.param([container(restartPolicy="Never")], f"{AT}[0].restartPolicy", id="Never"),
        pytest.param([container(restartPolicy="Always")], f"{AT}[0].restartPolicy", id="Always"),
        pytest.param(
            [container(), SIDE | {"restartPolicy": "OnFailure"}],
            f"{AT}[1].restartPolicy",
            id="of another container",
        ),
        pytest.param(
            [container(restartPolicyRules=RULES)], f"{AT}[0].restartPolicyRules", id="rules"
        ),
    ],
)
def test_a_container_with_its_own_restart_policy_is_rejected(
    containers: list[Body], field: str
) -> None:
    with pytest.raises(SpecError) as refused:
        job({"containers": containers})
    (problem,) = refused.value.problems
    assert problem.field == field
    assert "use the pod's restartPolicy, or spec.failurePolicy" in problem.message


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(
            {"initContainers": [SIDE | {"restartPolicy": "Always"}]}, id="a native sidecar"
        ),
        pytest.param(
            {"containers": [{**container(), "restartPolicy": None, "restartPolicyRules": []}]},
            id="no value",
        ),
        pytest.param({"restartPolicy": "Never"}, id="the pod's own"),
    ],
)
def test_restart_policies_of_pods_and_sidecars_are_accepted(pod: Body) -> None:
    assert job(pod).pod_sets


@pytest.mark.virtual_time
async def test_a_running_job_with_such_a_container_is_reported_and_left_alone() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        before = world.cluster.names_of("pods")
        world.cluster.edit(template={"spec": {"containers": [container(restartPolicy="Always")]}})
        await world.restart()
        await world.runs(30)
        status = world.cluster.read("dijobs", "job")["status"]
        invalid = {one["type"]: one for one in status["conditions"]}["Invalid"]
        assert (invalid["status"], invalid["reason"]) == ("True", "SpecInvalid")
        assert f"{AT}[0].restartPolicy: is Always" in invalid["message"]
        assert world.cluster.names_of("pods") == before
        assert not world.writes("DELETE", "pods")
