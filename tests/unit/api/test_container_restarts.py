"""Restart policies of single containers (Kubernetes 1.35, KEP-5307) are rejected, because the
operator uses the policy of the pod. A job that was started by an older operator gets a warning.
"""

import pytest
from dijob.api.problems import SpecError
from samples.builders import Body, container, job, job_body
from simulator.objects import Target
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
async def test_a_job_started_by_an_older_operator_recovers_and_ends() -> None:
    begun = {"startTime": "2026-05-04T12:00:00Z"}
    body = job_body({"containers": [container(restartPolicy="Always")]}, begun)
    async with simulated(starts=False) as world:
        world.cluster.server.put(Target("dijobs", "ns", "job"), body)
        world.operator.start()
        await world.running()
        before = world.cluster.names_of("pods")
        world.cluster.remove("pods", "job-1")
        await world.settle()
        conditions = {one.type: one for one in world.cluster.job().status.conditions}
        assert "Invalid" not in conditions
        assert conditions["SpecWarning"].status == "True"
        assert f"{AT}[0].restartPolicy: is Always" in conditions["SpecWarning"].message
        assert (world.phase, world.cluster.names_of("pods")) == ("Running", before)
        for name in before:
            pod = world.cluster.pod(name)
            pod.end(pod.main, 0)
        await world.until(lambda: world.phase == "Succeeded")
