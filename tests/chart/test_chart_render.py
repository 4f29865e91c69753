"""What the chart renders for several sets of values, read as YAML; helm alone, no cluster."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from chart.lab import CHART, Lab
from cluster.build import build
from cluster.shell import Progress
from dijob import __version__
from dijob.core.options import LAUNCHER_IMAGE
from dijob.shell.kinds import LEASES
from manifests import CRD
from planes import ROOT

pytestmark = pytest.mark.e2e

Objects = list[dict[str, Any]]

SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "namespaces": {"namespaces": ["team-a", "team-b"]},
    "everything": {
        "image": {"digest": "sha256:" + "a" * 64},
        "imagePullSecrets": ["registry"],
        "launcher": {
            "image": "registry.example/launcher:1",
            "delivery": "ImageVolume",
            "prepull": {
                "enabled": True,
                "nodeSelector": {"pool": "training"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            },
        },
        "logLevel": "debug",
        "logFormat": "json",
        "healthPort": 9090,
        "priorityClassName": "system-cluster-critical",
        "serviceAccount": {"annotations": {"example.com/a": "b"}},
        "podAnnotations": {"example.com/a": "b", "kubectl.kubernetes.io/default-container": "x"},
        "podLabels": {"team": "rl", "app.kubernetes.io/name": "another"},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "serviceMonitor": {"enabled": True, "interval": "10s", "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "grafanaDashboard": {"enabled": True},
        "networkPolicy": {"jobs": True, "enabled": True, "from": [{"namespaceSelector": {}}]},
        "crds": {"keep": False},
    },
    "least": {
        "namespaces": ["team-a"],
        "crds": {"install": False, "check": False},
        "policies": {"enabled": False},
        "userRoles": {"enabled": False},
    },
    "as a dependency": {"global": {"anything": 1}},
}


def render(lab: Lab, values: dict[str, Any]) -> str:
    """The manifest for release `dijob` in namespace `dijob-system`."""
    sets = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    return lab.helm("template", "dijob", str(CHART), "--namespace=dijob-system", *sets)


def parsed(text: str) -> Objects:
    return [each for each in yaml.safe_load_all(text) if each]


def of(objects: Objects, kind: str) -> Objects:
    return [each for each in objects if each["kind"] == kind]


def one(objects: Objects, kind: str, name: str = "") -> dict[str, Any]:
    """The only object of that kind (and name)."""
    (found,) = [each for each in of(objects, kind) if name in ("", each["metadata"]["name"])]
    return found


@pytest.fixture(scope="module")
def offline() -> Lab:
    """helm as the test cluster's build makes it."""
    return Lab(build(Progress(1)))


@pytest.fixture(scope="module", params=SETS)
def objects(request: pytest.FixtureRequest, offline: Lab) -> Objects:
    """The objects of one set of values."""
    return parsed(render(offline, SETS[request.param]))


def test_lint(offline: Lab) -> None:
    offline.helm("lint", "--strict", str(CHART))


def test_the_operator_meets_the_restricted_profile(objects: Objects) -> None:
    pod = one(objects, "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "runAsGroup": 65532,
        "fsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert all(volume.keys() <= {"name", "emptyDir"} for volume in pod["volumes"])
    assert container["resources"]["requests"] == {"cpu": "50m", "memory": "128Mi"}
    assert container["resources"]["limits"] == {"memory": "512Mi"}


def test_the_launchers_image_is_pulled_ahead_by_pods_without_any_right(offline: Lab) -> None:
    assert "kind: DaemonSet" not in render(offline, {})
    everything = parsed(render(offline, SETS["everything"]))
    spec = one(everything, "DaemonSet", "dijob-prepull")["spec"]
    pod = spec["template"]["spec"]
    assert (pod["automountServiceAccountToken"], "serviceAccountName" in pod) == (False, False)
    assert pod["nodeSelector"] == {"pool": "training"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (container,) = pod["containers"]
    assert (container["image"], container["command"]) == ("registry.example/launcher:1", ["/hold"])
    assert container["resources"]["requests"] == {"cpu": "1m", "memory": "8Mi"}
    # Neither of the two finds the other's pods.
    operator = one(everything, "Deployment")["spec"]
    for each, other in ((spec, operator), (operator, spec)):
        wanted, labels = (
            each["selector"]["matchLabels"],
            other["template"]["metadata"]["labels"],
        )
        assert not wanted.items() <= labels.items()
        assert wanted.items() <= each["template"]["metadata"]["labels"].items()


def test_the_operators_selector_fits_its_pods(objects: Objects) -> None:
    spec = one(objects, "Deployment")["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()


def test_two_operators_share_a_lease_and_are_on_two_nodes(offline: Lab) -> None:
    objects = parsed(render(offline, {}))
    spec = one(objects, "Deployment")["spec"]
    assert spec["replicas"] == 2
    # One more is ready before one of the old ones goes.
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = spec["template"]["spec"]
    assert "--lease=dijob-system/dijob" in pod["containers"][0]["args"]
    (spread,) = pod["topologySpreadConstraints"]
    for selector in (
        spread["labelSelector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"],
    ):
        assert selector == spec["selector"]
    # A spec would be put back by each upgrade.
    assert one(objects, "Lease", "dijob").keys() == {"apiVersion", "kind", "metadata"}
    role = next(each for each in of(objects, "Role") if each["metadata"]["name"] == "dijob-lease")
    assert role["metadata"]["namespace"] == "dijob-system"
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["dijob"]]
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == set(LEASES.verbs.split())


def test_one_operator_has_no_disruption_budget(offline: Lab) -> None:
    """It would keep its node from being drained."""
    objects = parsed(render(offline, {"replicas": 1}))
    assert one(objects, "Deployment")["spec"]["replicas"] == 1
    assert not of(objects, "PodDisruptionBudget")


UNREACHABLE, NOT_READY = "node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"


def brief(key: str, seconds: int) -> dict[str, Any]:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


SYSTEM = {"key": "system", "operator": "Exists"}
OWN = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
# (values, the tolerations of the operator's pod)
TOLERATIONS: dict[str, tuple[dict[str, Any], Objects]] = {
    "defaults": ({}, [brief(UNREACHABLE, 5), brief(NOT_READY, 5)]),
    "another time": ({"lostNodeSeconds": 0}, [brief(UNREACHABLE, 0), brief(NOT_READY, 0)]),
    "beside others": (
        {"tolerations": [SYSTEM]},
        [SYSTEM, brief(UNREACHABLE, 5), brief(NOT_READY, 5)],
    ),
    # The shorter of two would hold.
    "one's own": ({"tolerations": [OWN]}, [OWN, brief(NOT_READY, 5)]),
}


@pytest.mark.parametrize(("values", "expected"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_the_operator_leaves_a_lost_node_soon(
    offline: Lab, values: dict[str, Any], expected: Objects
) -> None:
    """Kubernetes' own 300 s are for pods that say nothing."""
    pod = one(parsed(render(offline, values)), "Deployment")["spec"]["template"]["spec"]
    assert pod["tolerations"] == expected


def test_every_object_is_marked_as_ours(objects: Objects) -> None:
    for each in objects:
        labels = each["metadata"].get("labels", {})
        assert labels.get("app.kubernetes.io/part-of") == "dijob", (
            f"{each['kind']} {each['metadata']['name']}"
        )


def test_no_rule_has_a_wildcard(objects: Objects) -> None:
    rules = [
        rule
        for each in objects
        if each["kind"] in ("Role", "ClusterRole")
        for rule in each["rules"]
    ]
    assert rules
    assert not [rule for rule in rules if any("*" in values for values in rule.values())]


def commented_rules(manifest: str) -> Iterator[tuple[str, str]]:
    """Each RBAC rule's first line with the line above it."""
    lines = manifest.splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s*- apiGroups:.*\S", line):
            yield lines[number - 1].strip(), line


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_every_rule_in_the_manifest_has_its_reason_above_it(
    offline: Lab, values: dict[str, Any]
) -> None:
    """The reasons reach the cluster's administrator: `helm get manifest` shows them."""
    rules = list(commented_rules(render(offline, values)))
    assert len(rules) >= 5
    assert not [rule for above, rule in rules if not above.startswith("#")]


def test_the_flags_follow_the_values(offline: Lab) -> None:
    (container,) = one(parsed(render(offline, {})), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    resources = '{"limits":{"memory":"2Gi"},"requests":{"cpu":"100m","memory":"64Mi"}}'
    redis = ["--redis-image=redis:7.2-alpine", f"--redis-resources={resources}"]
    assert container["args"] == [
        f"--launcher-image={LAUNCHER_IMAGE}",
        "--launcher-delivery=InitContainer",
        "--cluster-domain=cluster.local",
        *redis,
        "--lease=dijob-system/dijob",
        "--log-level=info",
        "--log-format=text",
        "--health-port=8080",
    ]
    assert container["image"] == f"dijob/operator:{__version__}"
    both = {**SETS["everything"], **SETS["namespaces"]}
    pod = one(parsed(render(offline, both)), "Deployment")["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == [
        "--namespace=team-a",
        "--namespace=team-b",
        "--launcher-image=registry.example/launcher:1",
        "--launcher-delivery=ImageVolume",
        "--cluster-domain=cluster.local",
        *redis,
        "--lease=dijob-system/dijob",
        "--network-policies",
        "--log-level=debug",
        "--log-format=json",
        "--health-port=9090",
    ]
    assert container["image"] == "dijob/operator@sha256:" + "a" * 64
    assert container["ports"] == [{"name": "health", "containerPort": 9090}]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "dijob"
    assert pod["metadata"]["labels"]["team"] == "rl"
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def without_leases(rules: list[dict[str, list[str]]]) -> list[dict[str, list[str]]]:
    """A release claims the namespaces that it was given, and looks at claims where it was not."""
    return [rule for rule in rules if rule["resources"] != ["leases"]]


def test_namespaces_take_the_cluster_wide_rights_away(offline: Lab) -> None:
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


def test_an_installer_without_cluster_rights_gets_no_cluster_wide_object(offline: Lab) -> None:
    kinds = {each["kind"] for each in parsed(render(offline, SETS["least"]))}
    workload = {"Deployment", "PodDisruptionBudget", "Lease"}
    assert kinds == {*workload, "ServiceAccount", "Role", "RoleBinding"}


def test_the_optional_objects(offline: Lab) -> None:
    everything = parsed(render(offline, SETS["everything"]))
    monitor = one(everything, "ServiceMonitor")
    labels = one(everything, "Service")["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    rule = one(everything, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    board = one(everything, "ConfigMap")
    assert board["data"] == {"dijob.json": (CHART / "files/dashboard.json").read_text()}
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    (rule,) = one(everything, "NetworkPolicy")["spec"]["ingress"]
    assert rule == {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"protocol": "TCP", "port": 9090}],
    }


def test_a_network_policy_without_peers_admits_nobody(offline: Lab) -> None:
    """In Kubernetes an empty `from` would admit everybody."""
    policy = one(parsed(render(offline, {"networkPolicy": {"enabled": True}})), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == []


def test_the_crd_is_the_generated_one_and_is_kept(offline: Lab) -> None:
    generated = yaml.safe_load((ROOT / "crds/dijob.yaml").read_text())
    dropped = one(parsed(render(offline, {"crds": {"keep": False}})), "CustomResourceDefinition")
    assert dropped == generated
    kept = one(parsed(render(offline, {})), "CustomResourceDefinition", CRD)
    assert kept["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert kept == generated


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("gateimage=x", "gateimage"),
        ("image.tga=x", "tga"),
        ("crds.instal=true", "instal"),
        ("logLevel=verbose", "logLevel"),
        ("healthPort=80", "healthPort"),
        ("namespaces={Team_A}", "namespaces"),
        ("image.digest=abc", "digest"),
        ("networkPolicy.from[0]=x", "from"),
        ("launcher.prepull.enable=true", "enable"),
    ],
)
def test_the_schema_refuses_by_name(offline: Lab, setting: str, named: str) -> None:
    said = offline.try_helm("template", "dijob", str(CHART), "--set", setting)
    assert not said.ok
    assert "values don't meet the specifications of the schema" in said.text
    assert named in said.text.partition("schema(s)")[2]
