"""The rendered RBAC rules have comments, and no ClusterRole if namespaces are given."""

from typing import Any

import pytest
from chart.lab import Lab
from chart.rendered import SETS, Objects, commented_rules, of, one, parsed, render

pytestmark = pytest.mark.e2e


def test_no_rule_has_a_wildcard(objects: Objects) -> None:
    rules = [
        rule
        for each in objects
        if each["kind"] in ("Role", "ClusterRole")
        for rule in each["rules"]
    ]
    assert rules
    assert not [rule for rule in rules if any("*" in values for values in rule.values())]


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_every_rule_in_the_manifest_has_a_comment(offline: Lab, values: dict[str, Any]) -> None:
    """Administrators can read the comments with `helm get manifest`."""
    rules = list(commented_rules(render(offline, values)))
    assert len(rules) >= 5
    assert not [rule for above, rule in rules if not above.startswith("#")]


def without_leases(rules: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """Remove the rules about Leases, which depend on whether namespaces are given."""
    return [rule for rule in rules if rule["resources"] != ["leases"]]


def test_with_namespaces_there_are_no_cluster_wide_permissions(offline: Lab) -> None:
    whole, few = (parsed(render(offline, SETS[name])) for name in ("defaults", "namespaces"))
    assert [each["metadata"]["name"] for each in of(whole, "Role")] == ["dijob-lease"]
    assert not [each for each in few if each["kind"] == "ClusterRoleBinding"]
    roles = [each for each in of(few, "Role") if each["metadata"]["name"] == "dijob"]
    assert [each["metadata"]["namespace"] for each in roles] == ["team-a", "team-b"]
    rules = one(whole, "ClusterRole", "dijob")["rules"]
    assert without_leases(rules) != rules
    assert all(without_leases(each["rules"]) == without_leases(rules) for each in roles)
    claims = [each for each in of(few, "Lease") if each["metadata"]["name"] == "dijob-operator"]
    assert [each["metadata"]["namespace"] for each in claims] == ["team-a", "team-b"]


def test_an_installer_without_cluster_permissions_creates_no_cluster_wide_object(
    offline: Lab,
) -> None:
    kinds = {each["kind"] for each in parsed(render(offline, SETS["least"]))}
    workload = {"Deployment", "PodDisruptionBudget", "Lease", "Service"}
    assert kinds == {*workload, "ServiceAccount", "Role", "RoleBinding"}


def test_the_permissions_for_kueue_are_granted_only_if_it_is_used(offline: Lab) -> None:
    def groups(found: Objects) -> set[str]:
        roles = [each for each in found if each["kind"] in ("Role", "ClusterRole")]
        return {group for each in roles for rule in each["rules"] for group in rule["apiGroups"]}

    def flags(found: Objects) -> list[str]:
        pod = one(found, "Deployment", "dijob")["spec"]["template"]["spec"]
        args: list[str] = pod["containers"][0]["args"]
        return args

    without = parsed(render(offline, {}))
    assert "kueue.x-k8s.io" not in groups(without)
    assert "--kueue" not in flags(without)
    used = {"scheduling": {"kueue": True}}
    assert "--kueue" in flags(parsed(render(offline, used)))
    few = parsed(render(offline, {**used, "namespaces": ["team-a"]}))
    assert "kueue.x-k8s.io" in groups(few)
    # ClusterQueues, flavors and priority classes have no namespace.
    roles = of(few, "ClusterRole")
    (cluster,) = (each for each in roles if each["metadata"]["name"].startswith("dijob-kueue-"))
    assert {resource for rule in cluster["rules"] for resource in rule["resources"]} == {
        "clusterqueues",
        "resourceflavors",
        "workloadpriorityclasses",
        "priorityclasses",
    }
    (binding,) = of(few, "ClusterRoleBinding")
    # A ClusterRoleBinding of the component "operator" would mark a release for the whole cluster.
    assert binding["metadata"]["labels"]["app.kubernetes.io/component"] != "operator"
