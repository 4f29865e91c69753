"""A NetworkPolicy for each job on a real apiserver, and how invalid rules are reported."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from apiserver.plane import Body, Plane, job, operator
from planes import control_plane
from space import JOB_LABEL
from workers import own

pytestmark = pytest.mark.apiserver

BOARD: Body = {
    "from": [
        {"podSelector": {"matchLabels": {"app": "tensorboard"}}},
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "Exists"}]}},
        {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}},
    ],
    "ports": [{"port": "metrics", "protocol": "TCP"}],
}
NOWHERE: Body = {"from": [{"ipBlock": {"cidr": "here"}}]}


@pytest.fixture(scope="module")
def isolating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    log = tmp_path_factory.mktemp("isolating") / "log"
    flags = ("--network-policies",)
    with (
        control_plane(own("isolating"), nodes=1) as cluster,
        operator(cluster.kubeconfig, log, flags=flags),
    ):
        yield Plane(cluster, log)


def test_the_policy_of_a_job_is_maintained(isolating: Plane) -> None:
    isolating.apply(job("open", networkPolicy={"ingress": [BOARD]}))
    isolating.until_condition("open", "Running", "True", seconds=60)
    before = isolating.uids("open")
    assert created(isolating) == ["networkpolicies", "pods", "pods"]
    ranks = {"matchLabels": {JOB_LABEL: "open"}}
    mine = {"from": [{"podSelector": ranks}]}
    assert spec(isolating) == {
        "podSelector": ranks,
        "policyTypes": ["Ingress"],
        "ingress": [BOARD, mine],
    }

    uid = there(isolating)["metadata"]["uid"]
    isolating.kubectl("delete", "networkpolicy", "open")
    until(isolating, lambda found: bool(found) and found["metadata"]["uid"] != uid)

    edit(isolating, None)
    until(isolating, lambda found: found.get("spec", {}).get("ingress") == [mine])

    edit(isolating, [NOWHERE])
    words = ("PolicyUpdateRefused", "spec.ingress[0].from[0].ipBlock.cidr")
    isolating.until_condition("open", "ChangesRefused", "True", *words)
    edit(isolating, [BOARD])
    isolating.until_condition("open", "ChangesRefused", "False", "Accepted", seconds=70)
    assert spec(isolating)["ingress"] == [BOARD, mine]
    assert isolating.uids("open") == before
    # The operator reads what it has written, so it writes nothing twice.
    changes = [
        line["responseStatus"]["code"]
        for line in audited(isolating, "patch")
        if line["objectRef"]["resource"] == "networkpolicies"
    ]
    assert changes.count(200) == 2, changes


def test_no_rank_starts_with_rules_that_the_apiserver_rejects(isolating: Plane) -> None:
    isolating.apply(job("wrong", networkPolicy={"ingress": [NOWHERE]}))
    words = ("Refused", "spec.ingress[0].from[0].ipBlock.cidr")
    isolating.until_condition("wrong", "Isolated", "False", *words)
    assert not isolating.pods("wrong")
    isolating.apply(job("wrong"))
    isolating.until_condition("wrong", "Running", "True", seconds=60)
    isolating.until_condition("wrong", "Isolated", "True", "Created")


def test_an_unknown_key_is_named(isolating: Plane) -> None:
    """The client sends the key without strict validation."""
    isolating.kubectl(
        "apply",
        "--validate=ignore",
        "-f",
        "-",
        stdin=json.dumps(job("typo", networkPolicy={"ingress": [{"form": [{}]}]})),
    )
    words = "spec.networkPolicy.ingress[0].form"
    isolating.until_condition("typo", "Invalid", "True", "SpecInvalid", words)
    assert isolating.get("networkpolicy", "typo") is None


def test_a_policy_of_another_owner_is_not_touched(isolating: Plane) -> None:
    theirs: Body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "taken"},
        "spec": {"podSelector": {"matchLabels": {"their": "own"}}},
    }
    isolating.apply(theirs, job("taken"))
    isolating.until_condition("taken", "Isolated", "False", "NameTaken")
    assert not isolating.pods("taken")
    found = isolating.get("networkpolicy", "taken") or {}
    assert found["spec"]["podSelector"] == theirs["spec"]["podSelector"]
    isolating.kubectl("delete", "networkpolicy", "taken")
    isolating.until_condition("taken", "Running", "True", seconds=60)


def there(plane: Plane) -> Body:
    return plane.get("networkpolicy", "open") or {}


def spec(plane: Plane) -> Body:
    found: Body = there(plane)["spec"]
    return found


def until(plane: Plane, right: Any) -> None:
    plane.until("the policy is so", lambda: right(there(plane)), lambda: there(plane))


def edit(plane: Plane, rules: list[Body] | None) -> None:
    given = {"networkPolicy": {"ingress": rules} if rules else None}
    plane.kubectl("patch", "dijob", "open", "--type=merge", "-p", json.dumps({"spec": given}))


def audited(plane: Plane, verb: str) -> list[Body]:
    """Return the requests with this verb about pods and network policies, in order."""
    lines = map(json.loads, plane.cluster.audit_log.read_text().splitlines())
    kinds = ("pods", "networkpolicies")
    return [
        line
        for line in lines
        if (line["verb"], line["stage"]) == (verb, "ResponseComplete")
        and line["objectRef"]["resource"] in kinds
        and not line["objectRef"].get("subresource")
    ]


def created(plane: Plane) -> list[str]:
    """Return the kinds of created objects."""
    return [line["objectRef"]["resource"] for line in audited(plane, "create")]
