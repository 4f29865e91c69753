"""Objects that a job's ranks share: rejections, edits and deletions are reported, and cause no loop
of requests (H9, H13, H34, R5).
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from dijob import names
from dijob.core.observed.policies import spec_digest
from dijob.core.observed.views import ApiRejection, Isolation, Observed, RejectionCause
from dijob.core.options import Options
from dijob.core.render import policy
from samples.builders import Body, job, job_body, later, observed, plan
from simulator.objects import Target
from simulator.simulated import World, simulated

virtual = pytest.mark.virtual_time
ISOLATED = Options(isolates=True)
POLICY = Target("networkpolicies", "ns", "job")
SERVER_POLICY = Target("networkpolicies", "ns", "job-mq")
SERVICE = Target("services", "ns", "job")
# In a minute: at once, and after 1, 2, 4, 8, 16 and 32 s.
MOST_WRITES = 9


def conditions(world: World) -> dict[str, Any]:
    return {one.type: one for one in world.cluster.job().status.conditions}


def edited(world: World, target: Target, **spec: Any) -> None:
    """Edit the spec of an object."""
    body = copy.deepcopy(world.cluster.server.get(target))
    body["spec"] |= spec
    world.cluster.server.replace(target, body)


def is_as(world: World, target: Target, spec: Body) -> bool:
    return bool(world.cluster.server.get(target)["spec"] == spec)


def webhook(world: World, target: Target, change: Callable[[Body], None]) -> None:
    """Change each version of an object when it is written."""
    stored = world.cluster.server.replace

    def changing(seen: Target, body: Body) -> Body:
        if seen == target:
            body = copy.deepcopy(body)
            change(body)
        return stored(seen, body)

    world.cluster.server.replace = changing  # type: ignore[method-assign,assignment]


EDITS: dict[str, Body] = {
    "open to all": {"ingress": [{}]},
    "closed to all": {"ingress": []},
    "of other pods": {"podSelector": {"matchLabels": {"app": "x"}}},
    "of fewer pods": {"podSelector": {"matchLabels": {names.LABEL_JOB: "job", "app": "x"}}},
    "denies egress": {"policyTypes": ["Ingress", "Egress"], "egress": []},
}


@virtual
@pytest.mark.parametrize("spec", EDITS.values(), ids=EDITS)
async def test_an_edited_network_policy_is_restored(spec: Body) -> None:
    """H9: even if its annotations are as the operator wrote them."""
    async with simulated(job_body(messageQueue={"type": "redis"}), options=ISOLATED) as world:
        await world.running()
        for target in (POLICY, SERVER_POLICY):
            before = world.cluster.server.get(target)["spec"]
            edited(world, target, **spec)
            await world.until(partial(is_as, world, target, before), 5)
        await world.settle()
        assert "ChangesRefused" not in conditions(world)
        assert len(world.writes("PATCH", "networkpolicies")) == 2


@virtual
async def test_a_webhook_that_strips_annotations_of_policies_causes_no_write() -> None:
    """H13, R5."""
    async with simulated(options=ISOLATED) as world:
        webhook(world, POLICY, lambda body: body["metadata"].pop("annotations", None))
        world.cluster.apply(job_body())
        await world.running()
        await world.runs(60)
        assert not world.writes("PATCH", "networkpolicies")


@virtual
async def test_a_reverted_policy_is_written_with_back_off_and_reported() -> None:
    """H13, R5: a webhook or a controller that changes the spec."""
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        webhook(world, POLICY, lambda body: body["spec"].update(ingress=[{}]))
        edited(world, POLICY)
        await world.runs(60)
        said = conditions(world)["ChangesRefused"]
        assert (said.status, said.reason) == ("True", "PolicyUpdateRefused")
        assert (
            "networkpolicy job cannot be changed: something reverts the change after each write"
            in said.message
        )
        assert world.cluster.job().status.message.startswith("networkpolicy job cannot be changed")
        assert 2 < len(world.writes("PATCH", "networkpolicies")) <= MOST_WRITES


@virtual
async def test_replicas_that_a_webhook_removes_are_written_with_back_off() -> None:
    """R5: every repeated change has a back-off."""
    body = job_body(minReplicas=2, maxReplicas=2)
    async with simulated() as world:
        webhook(
            world, Target(names.PLURAL, "ns", "job"), lambda seen: seen["spec"].pop("replicas", 0)
        )
        world.cluster.apply(body)
        await world.runs(60)
        writes = [w for w in world.writes("PATCH", names.PLURAL) if w.target.sub != "status"]
        assert 2 < len(writes) <= MOST_WRITES
        assert "spec.replicas cannot be written: something reverts the change" in (
            conditions(world)["ChangesRefused"].message
        )


@virtual
@pytest.mark.parametrize(
    ("target", "type_", "reason"),
    [(SERVICE, "ServiceReady", "ServiceRemoved"), (POLICY, "Isolated", "Removed")],
    ids=["service", "network policy"],
)
async def test_a_shared_object_that_is_deleted_repeatedly_is_created_with_back_off(
    target: Target, type_: str, reason: str
) -> None:
    """R5: something deletes it whenever it appears."""
    async with simulated(job_body(), options=ISOLATED) as world:
        await world.running()
        before = len(world.writes("POST", target.plural))
        said = set()
        for _ in range(600):
            if target in world.cluster.server.objects:
                world.cluster.server.remove(target)
            await world.runs(0.1)
            if type_ in conditions(world):
                said.add(conditions(world)[type_].reason)
        assert len(world.writes("POST", target.plural)) - before <= MOST_WRITES
        assert reason in said
        await world.until(lambda: target in world.cluster.server.objects, 70)
        await world.settle()
        assert conditions(world)[type_].status == "True"


NO = ApiRejection(RejectionCause.REJECTED, "denied by a webhook", later(60))
REJECTED: dict[str, tuple[Observed, Body, str]] = {
    "the network policy": (
        observed(rejections={"networkpolicy/job": NO}),
        {},
        "networkpolicy job cannot be created: denied by a webhook",
    ),
    "the service": (
        observed(services=(), rejections={"service/job": NO}),
        {},
        "service job cannot be created: denied by a webhook",
    ),
    "the pod of its Redis server": (
        observed(rejections={"pod/job-mq": NO}),
        {"messageQueue": {"type": "redis"}},
        "pod job-mq cannot be created: denied by a webhook",
    ),
    "the service of its Redis server": (
        observed(rejections={"service/job-mq": NO}),
        {"messageQueue": {"type": "redis"}},
        "service job-mq cannot be created: denied by a webhook",
    ),
}


@pytest.mark.parametrize(("seen", "spec", "said"), REJECTED.values(), ids=REJECTED)
def test_the_message_of_a_job_names_the_rejected_shared_object(
    seen: Observed, spec: Body, said: str
) -> None:
    """H34: kubectl get and watch show this message."""
    isolation = Isolation(wanted="networkpolicy/job" in seen.rejections)
    decided = plan(job(**spec), replace(seen, isolation=isolation), later(1))
    assert decided.status.message == said


RULE: Body = {"from": [{"podSelector": {"matchLabels": {}}}], "ports": [{"port": 80}]}
SAME: dict[str, tuple[Body, Body]] = {
    "the default protocol": (
        {"ingress": [{"ports": [{"port": 80}]}]},
        {"ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}]},
    ),
    "empty maps and lists": (
        {"ingress": [{"from": [{"podSelector": {"matchLabels": {}}}], "ports": []}]},
        {"ingress": [{"from": [{"podSelector": {}}]}]},
    ),
    "a null": ({"ingress": [{}], "egress": None}, {"ingress": [{}]}),
}


@pytest.mark.parametrize(("sent", "shown"), SAME.values(), ids=SAME)
def test_defaults_that_the_api_server_adds_to_a_policy_are_not_an_edit(
    sent: Body, shown: Body
) -> None:
    assert spec_digest(sent) == spec_digest(shown)


def test_a_rule_for_all_is_not_the_same_as_no_rule() -> None:
    rules: list[list[Body]] = [[], [{}], [{"from": [{}]}]]
    assert len({spec_digest({"ingress": one}) for one in rules}) == 3
    assert spec_digest(policy.ingress_spec(job())) != spec_digest(
        policy.ingress_spec(job({"hostNetwork": True}))
    )
