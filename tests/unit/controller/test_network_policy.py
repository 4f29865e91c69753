"""The NetworkPolicy of a job: created before its pods, restored when it is deleted, and absent if
the operator does not use policies.
"""

from typing import Any

import pytest
from dijob import names
from dijob.api.problems import SpecError
from dijob.core.options import Options, option_warnings
from dijob.core.render import policy
from samples.builders import job, job_body
from simulator.objects import Body, Target
from simulator.simulated import World, simulated

virtual = pytest.mark.virtual_time
ISOLATED = Options(isolates=True)
BOARD: Body = {
    "from": [{"podSelector": {"matchLabels": {"app": "tensorboard"}}}],
    "ports": [{"port": "metrics"}],
}
POLICY = Target("networkpolicies", "ns", "job")


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([], id="no other peer"),
        pytest.param([BOARD], id="TensorBoard"),
        pytest.param([{"from": [{"namespaceSelector": {}}]}, BOARD], id="every namespace"),
        pytest.param(
            [
                {
                    "from": [
                        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
                        {
                            "namespaceSelector": {"matchLabels": {"a": "b"}},
                            "podSelector": {
                                "matchExpressions": [
                                    {"key": "x", "operator": "In", "values": ["y", "z"]},
                                    {"key": "x", "operator": "Exists"},
                                ]
                            },
                        },
                    ],
                    "ports": [
                        {"port": 8000, "endPort": 9000, "protocol": "UDP"},
                        {"protocol": "TCP"},
                    ],
                }
            ],
            id="all that a rule can have",
        ),
    ],
)
def test_the_policy_admits_the_jobs_ranks_and_the_peers_that_it_names(rules: list[Body]) -> None:
    """In this order, so that the index of a rule in an API error is its index in the job."""
    (made,) = policy.isolation_manifests(job(networkPolicy={"ingress": rules}), ISOLATED)
    ranks = {"matchLabels": {names.LABEL_JOB: "job"}}
    assert made["spec"] == {
        "podSelector": ranks,
        "policyTypes": ["Ingress"],
        "ingress": [*rules, {"from": [{"podSelector": ranks}]}],
    }
    assert made["metadata"]["ownerReferences"][0]["controller"] is True


RULE = "spec.networkPolicy.ingress[0]"


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        pytest.param({}, f"{RULE}.from", id="all peers"),
        pytest.param({"from": []}, f"{RULE}.from", id="all peers, in another form"),
        pytest.param({"form": [{"podSelector": {}}]}, f"{RULE}.form", id="misspelled from"),
        pytest.param(
            {"from": [{"podSelecter": {}}]}, f"{RULE}.from[0].podSelecter", id="misspelled peer"
        ),
        pytest.param(
            {"from": [{"namespaceSelector": {"matchLabel": {"a": "b"}}}]},
            f"{RULE}.from[0].namespaceSelector.matchLabel",
            id="misspelled selector, which would be every namespace",
        ),
        pytest.param(
            {"from": [{"podSelector": {}}], "ports": [{"prot": 1}]},
            f"{RULE}.ports[0].prot",
            id="misspelled port, which would be every port",
        ),
        pytest.param(
            {"from": [{"podSelector": {}}], "ports": [{"port": 0}]},
            f"{RULE}.ports[0].port",
            id="a port that there is not",
        ),
    ],
)
def test_a_rule_that_would_admit_more_than_it_states_is_rejected(rule: Body, field: str) -> None:
    with pytest.raises(SpecError) as refused:
        job(networkPolicy={"ingress": [rule]})
    assert field in str(refused.value)


def test_the_policy_is_not_part_of_the_template_hash() -> None:
    assert job(networkPolicy={"ingress": [BOARD]}).fingerprint == job().fingerprint


@virtual
async def test_a_change_of_the_rules_updates_the_policy_of_a_running_job() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        before = pods(world)
        world.cluster.edit(networkPolicy={"ingress": [BOARD]})
        await world.until(lambda: world.cluster.server.get(POLICY)["spec"]["ingress"][0] == BOARD)
        await world.settle()
        assert len(world.writes("PATCH", "networkpolicies")) == 1
        assert pods(world) == before
        world.cluster.edit(networkPolicy=None)
        await world.until(lambda: len(world.cluster.server.get(POLICY)["spec"]["ingress"]) == 1)


@virtual
async def test_a_rejected_update_of_the_policy_is_reported_and_retried() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        world.refuse("PATCH", "networkpolicies", 422, times=2)
        world.cluster.edit(networkPolicy={"ingress": [BOARD]})
        await world.until(lambda: "ChangesRefused" in conditions(world))
        said = conditions(world)["ChangesRefused"]
        assert (said.status, said.reason) == ("True", "PolicyUpdateRefused")
        await world.until(lambda: conditions(world)["ChangesRefused"].status == "False")
        assert world.cluster.server.get(POLICY)["spec"]["ingress"][0] == BOARD


@virtual
async def test_a_conflicting_update_of_the_policy_is_retried() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        world.refuse("PATCH", "networkpolicies", 409)
        world.cluster.edit(networkPolicy={"ingress": [BOARD]})
        await world.until(lambda: world.cluster.server.get(POLICY)["spec"]["ingress"][0] == BOARD)
        assert "ChangesRefused" not in conditions(world)


@virtual
async def test_no_pod_is_created_before_the_policy() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        created = [(call.target.plural, call.body["metadata"]["name"]) for call in posts(world)]
        assert created[0] == ("networkpolicies", "job")
        # The policy, three pods, and the Service once the job runs.
        assert len(created) == 1 + 3 + 1


@virtual
async def test_without_policies_the_plan_is_the_same() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        assert not world.writes("POST", "networkpolicies")
        assert "Isolated" not in conditions(world)


@virtual
async def test_a_deleted_policy_is_recreated_before_any_pod() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        before = len(posts(world))
        world.cluster.server.remove(POLICY)
        await world.until(lambda: POLICY in world.cluster.server.objects, 5)
        await world.settle()
        assert len(posts(world)) == before + 1


@virtual
async def test_a_running_job_gets_the_policy_and_keeps_its_pods() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        uids = {body["metadata"]["uid"] for body in pods(world)}
        world.options = ISOLATED
        await world.restart()
        await world.until(lambda: POLICY in world.cluster.server.objects, 10)
        await world.settle()
        assert {body["metadata"]["uid"] for body in pods(world)} == uids
        assert [call.body for call in world.writes("PATCH", "pods")] == [
            call.body for call in world.writes("PATCH", "pods")[:3]
        ]


@virtual
async def test_a_rejected_policy_blocks_pods_and_is_reported() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        world.refuse("POST", "networkpolicies", 403, times=3)
        await world.until(lambda: "Isolated" in conditions(world))
        said = conditions(world)["Isolated"]
        assert (said.status, said.reason) == ("False", "Refused")
        assert not world.writes("POST", "pods")
        await world.running()
        assert conditions(world)["Isolated"].reason == "Created"


@virtual
async def test_a_foreign_policy_of_the_same_name_blocks_pods() -> None:
    foreign: Body = {
        "metadata": {"name": "job", "namespace": "ns"},
        "spec": {"podSelector": {}},
    }
    async with simulated(options=ISOLATED) as world:
        world.cluster.create("networkpolicies", foreign)
        world.cluster.apply(job_body())
        await world.until(lambda: "Isolated" in conditions(world))
        assert conditions(world)["Isolated"].reason == "NameTaken"
        assert not world.writes("POST", "pods")
        world.cluster.server.remove(POLICY)
        await world.until(lambda: world.phase == "Running", 120)


@virtual
async def test_a_deleted_policy_of_the_redis_server_is_recreated() -> None:
    redis = job_body(messageQueue={"type": "redis"})
    async with simulated(redis, options=ISOLATED) as world:
        await world.running()
        target = Target("networkpolicies", "ns", "job-mq")
        world.cluster.server.remove(target)
        await world.until(lambda: target in world.cluster.server.objects, 5)


@virtual
async def test_no_rank_joins_while_the_policy_is_missing() -> None:
    """The pods of ranks that join are created in order, by another branch of the plan."""
    async with simulated(job_body(minReplicas=1, maxReplicas=5, replicas=2)) as world:
        await world.running()
        world.options = ISOLATED
        world.refuse("POST", "networkpolicies", 403, times=5)
        await world.restart()
        await world.until(lambda: "Isolated" in conditions(world))
        world.cluster.scale(4)
        await world.runs(4)
        assert len(pods(world)) == 2
        await world.until(lambda: len(pods(world)) == 4, 120)
        assert POLICY in world.cluster.server.objects


@virtual
async def test_a_job_with_host_network_has_no_policy() -> None:
    """A policy would cut these ranks off from ranks that have their own network."""
    async with simulated(job_body({"hostNetwork": True}), options=ISOLATED) as world:
        await world.running()
        assert not world.writes("POST", "networkpolicies")
        said = conditions(world)["SpecWarning"]
        assert said.status == "True"
        assert "spec.template.spec.hostNetwork: is true" in said.message


def test_rules_without_effect_are_reported() -> None:
    (problem,) = option_warnings(job(networkPolicy={"ingress": [BOARD]}), Options())
    assert str(problem).startswith("spec.networkPolicy: has no effect")
    assert option_warnings(job(networkPolicy={"ingress": [BOARD]}), ISOLATED) == ()


@pytest.mark.parametrize(
    ("on_host", "options", "said"),
    [
        pytest.param(True, ISOLATED, True, id="in the node's network"),
        pytest.param(False, ISOLATED, False, id="in its own"),
        pytest.param(True, Options(), False, id="policies are disabled"),
    ],
)
def test_an_unprotected_job_is_reported(on_host: bool, options: Options, said: bool) -> None:
    found = option_warnings(job({"hostNetwork": on_host}), options)
    assert [problem.field for problem in found] == (
        ["spec.template.spec.hostNetwork"] if said else []
    )


def posts(world: World) -> list[Any]:
    return world.writes("POST")


def pods(world: World) -> list[Body]:
    return [body for at, body in world.cluster.server.objects.items() if at.plural == "pods"]


def conditions(world: World) -> dict[str, Any]:
    return {each.type: each for each in world.cluster.job().status.conditions}
