"""The NetworkPolicy of a job: before its pods, again when it is gone, none where none is wanted."""

from typing import Any

import pytest
from dijob import names
from dijob.core.options import Options, notes
from dijob.core.render import policy
from unit.builders import job, job_body
from unit.objects import Body, Target
from unit.simulated import World, simulated

virtual = pytest.mark.virtual_time
ISOLATED = Options(isolates=True)
POLICY = Target("networkpolicies", "ns", "job")


def test_it_lets_in_the_jobs_own_ranks_at_all_their_ports() -> None:
    (made,) = policy.manifests(job(), ISOLATED)
    ranks = {"matchLabels": {names.LABEL_JOB: "job"}}
    assert made["spec"] == {
        "podSelector": ranks,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": ranks}]}],
    }
    assert made["metadata"]["ownerReferences"][0]["controller"] is True


@virtual
async def test_no_pod_is_created_before_it() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        created = [(call.target.plural, call.body["metadata"]["name"]) for call in posts(world)]
        assert created[0] == ("networkpolicies", "job")
        assert len(created) == 1 + 3 + 1  # and the service, once the job runs


@virtual
async def test_without_it_nothing_is_different() -> None:
    async with simulated(job_body()) as world:
        await world.running()
        assert not world.writes("POST", "networkpolicies")
        assert "Isolated" not in conditions(world)


@virtual
async def test_one_that_is_deleted_comes_again_and_no_pod_with_it() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        before = len(posts(world))
        world.cluster.server.remove(POLICY)
        await world.until(lambda: POLICY in world.cluster.server.objects, 5)
        await world.settle()
        assert len(posts(world)) == before + 1


@virtual
async def test_a_job_that_ran_before_gets_it_and_its_pods_stay() -> None:
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
async def test_where_it_is_refused_no_pod_begins_and_a_condition_says_why() -> None:
    async with simulated(job_body(), options=ISOLATED) as world:
        world.refuse("POST", "networkpolicies", 403, times=3)
        await world.until(lambda: "Isolated" in conditions(world))
        said = conditions(world)["Isolated"]
        assert (said.status, said.reason) == ("False", "Refused")
        assert not world.writes("POST", "pods")
        await world.running()
        assert conditions(world)["Isolated"].reason == "Created"


@virtual
async def test_where_somebody_elses_has_its_name_no_pod_begins() -> None:
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
async def test_the_policy_of_its_redis_server_comes_again_too() -> None:
    async with simulated(job_body(messageQueue={"type": "redis"})) as world:
        await world.running()
        target = Target("networkpolicies", "ns", "job-mq")
        world.cluster.server.remove(target)
        await world.until(lambda: target in world.cluster.server.objects, 5)


@pytest.mark.parametrize(
    ("on_host", "options", "said"),
    [
        pytest.param(True, ISOLATED, True, id="in the node's network"),
        pytest.param(False, ISOLATED, False, id="in its own"),
        pytest.param(True, Options(), False, id="where no job is isolated"),
    ],
)
def test_a_job_that_no_policy_protects_says_so(on_host: bool, options: Options, said: bool) -> None:
    found = notes(job({"hostNetwork": on_host}), options)
    assert [problem.field for problem in found] == (
        ["spec.template.spec.hostNetwork"] if said else []
    )


def posts(world: World) -> list[Any]:
    return world.writes("POST")


def pods(world: World) -> list[Body]:
    return [body for at, body in world.cluster.server.objects.items() if at.plural == "pods"]


def conditions(world: World) -> dict[str, Any]:
    return {each.type: each for each in world.cluster.job().status.conditions}
