"""The rendered objects with and without the HTTP server, with helm and without a cluster."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from chart.lab import Lab
from chart.rendered import Objects, commented_rules, of, one, parsed, render
from planes import ROOT

pytestmark = pytest.mark.e2e

ON: dict[str, Any] = {"server": {"enabled": True}}
TEAMS: dict[str, Any] = {**ON, "namespaces": ["team-a", "team-b"]}
URL = "--server-url=http://$(SERVICE_ACCOUNT)-server.$(POD_NAMESPACE).svc.cluster.local:8080"


def named(objects: Objects) -> set[tuple[str, str, str]]:
    """Return kind, namespace and name of each object."""
    metas = [(each["kind"], each["metadata"]) for each in objects]
    return {(kind, meta.get("namespace", ""), meta["name"]) for kind, meta in metas}


def test_without_the_server_none_of_its_objects_is_rendered(offline: Lab) -> None:
    """With the server, all other objects are the same, except for the operator's flag."""
    without, having = parsed(render(offline, {})), parsed(render(offline, ON))
    assert not {each for each in named(without) if "server" in each[2]}
    assert "server-url" not in render(offline, {"server": {"replicas": 3, "jobMetrics": True}})
    theirs = named(having) - named(without)
    assert {kind for kind, _, _ in theirs} == {
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "PodDisruptionBudget",
        "Deployment",
    }  # fmt: skip
    assert all(name.startswith("dijob-server") for _, _, name in theirs)
    (container,) = one(having, "Deployment", "dijob")["spec"]["template"]["spec"]["containers"]
    container["args"].remove(URL)
    assert [each for each in having if named([each]) <= named(without)] == without


def test_two_servers_are_spread_over_nodes_and_restricted(offline: Lab) -> None:
    objects = parsed(render(offline, ON))
    spec, operator = (
        one(objects, "Deployment", name)["spec"] for name in ("dijob-server", "dijob")
    )
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 2
    assert pod["securityContext"] == operator["template"]["spec"]["securityContext"]
    (container,), (other,) = pod["containers"], operator["template"]["spec"]["containers"]
    assert container["securityContext"] == other["securityContext"]
    assert container["image"] == other["image"]
    assert container["args"] == ["--port=8080", "--health-port=8081", "--replicas=2"]
    (spread,) = pod["topologySpreadConstraints"]
    budget, service = (
        one(objects, kind, "dijob-server")["spec"] for kind in ("PodDisruptionBudget", "Service")
    )
    assert spread["labelSelector"] == budget["selector"] == spec["selector"]
    assert service["selector"] == spec["selector"]["matchLabels"]
    # Neither selector matches the other's pods.
    for each, foreign in ((spec, operator), (operator, spec)):
        labels = foreign["template"]["metadata"]["labels"]
        assert not each["selector"]["matchLabels"].items() <= labels.items()
    assert pod["serviceAccountName"] == "dijob-server"


def test_one_server_has_no_disruption_budget(offline: Lab) -> None:
    objects = parsed(render(offline, {"server": {"enabled": True, "replicas": 1}}))
    budgets = [each["metadata"]["name"] for each in of(objects, "PodDisruptionBudget")]
    assert budgets == ["dijob"]


def rights(roles: Objects) -> set[tuple[str, str, str]]:
    """Return group, resource and verbs of each rule, as in a row of docs/security.md."""
    return {
        (group or "(core)", resource, ", ".join(rule["verbs"]))
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def servers(objects: Objects, kind: str) -> Objects:
    return [each for each in of(objects, kind) if each["metadata"]["name"].startswith(SERVER)]


SERVER = "dijob-server"


def test_the_servers_permissions_are_those_of_the_security_page(offline: Lab) -> None:
    page = (ROOT / "docs/security.md").read_text()
    section = re.search(r"^## The server's rights\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    assert section
    rows = re.findall(r"^\| (\S+) \| (\S+) \| ([a-z, ]+) \| .+ \|$", section[1], re.MULTILINE)
    assert rights(servers(parsed(render(offline, ON)), "ClusterRole")) == {
        row for row in rows if row[0] != "group"
    }
    for above, rule in commented_rules(render(offline, ON)):
        assert above.startswith("#"), f"no reason above {rule}"


def test_with_namespaces_only_reviews_are_cluster_wide(offline: Lab) -> None:
    objects = parsed(render(offline, TEAMS))
    assert {resource for _, resource, _ in rights(servers(objects, "ClusterRole"))} == {
        "tokenreviews",
        "subjectaccessreviews",
    }
    whole = servers(parsed(render(offline, ON)), "ClusterRole")
    for namespace in TEAMS["namespaces"]:
        roles, bound = (
            [each for each in servers(objects, kind) if each["metadata"]["namespace"] == namespace]
            for kind in ("Role", "RoleBinding")
        )
        assert rights(roles) == rights([r for r in whole if r["metadata"]["name"] == SERVER])
        (binding,) = bound
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": SERVER, "namespace": "dijob-system"}
        ]
    assert named(servers(objects, "ClusterRoleBinding")) == {
        ("ClusterRoleBinding", "", "dijob-server-review")
    }


@pytest.mark.parametrize(
    ("rewrites", "host"),
    [
        ({}, "dijob-server.dijob-system"),
        ({"namePrefix": "team-"}, "team-dijob-server.dijob-system"),
        ({"namePrefix": "team-", "namespace": "rl"}, "team-dijob-server.rl"),
    ],
    ids=["nothing", "namePrefix", "namePrefix and namespace"],
)
def test_names_that_kustomize_rewrites_are_in_the_servers_url(
    offline: Lab, tmp_path: Path, rewrites: dict[str, str], host: str
) -> None:
    """C15: the operator's flag named a Service that did not exist."""
    (tmp_path / "chart.yaml").write_text(render(offline, ON))
    kustomization = {"resources": ["chart.yaml"], **rewrites}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(kustomization))
    made = parsed(offline.kubectl("kustomize", str(tmp_path)))
    (pod,) = (
        each["spec"]["template"]
        for each in made
        if each["kind"] == "Deployment" and not each["metadata"]["name"].endswith("-server")
    )
    (container,) = pod["spec"]["containers"]
    (flag,) = (each for each in container["args"] if each.startswith("--server-url="))
    (deployed,) = {each["metadata"]["namespace"] for each in made if each["kind"] == "Deployment"}
    flag = flag.replace("$(SERVICE_ACCOUNT)", pod["spec"]["serviceAccountName"])
    flag = flag.replace("$(POD_NAMESPACE)", deployed)
    assert flag == f"--server-url=http://{host}.svc.cluster.local:8080"
    assert {entry["name"] for entry in container["env"]} >= {"SERVICE_ACCOUNT", "POD_NAMESPACE"}
    services = [each["metadata"] for each in made if each["kind"] == "Service"]
    assert host in {f"{each['name']}.{each['namespace']}" for each in services}
    # The channel has a Service, too, and its address follows the same changes.
    (flag,) = (each for each in container["args"] if each.startswith("--channel="))
    flag = flag.replace("$(SERVICE_ACCOUNT)", pod["spec"]["serviceAccountName"])
    there = host.replace("-server.", "-channel.")
    assert flag.replace("$(POD_NAMESPACE)", deployed) == f"--channel={there}.svc.cluster.local:8082"
    assert there in {f"{each['name']}.{each['namespace']}" for each in services}
