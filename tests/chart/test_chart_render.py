"""The rendered objects for several sets of values, with helm and without a cluster."""

from typing import Any

import pytest
import yaml
from chart.lab import CHART, Lab
from chart.rendered import SETS, Objects, of, one, parsed, render
from dijob import __version__
from dijob.core.options import LAUNCHER_IMAGE
from dijob.kube.kinds import LEASES
from manifests import CRD
from planes import ROOT

pytestmark = pytest.mark.e2e


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


def test_the_prepull_pods_have_no_permissions(offline: Lab) -> None:
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
    # Neither selector matches the other's pods.
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


def test_two_replicas_share_a_lease_and_are_spread_over_nodes(offline: Lab) -> None:
    objects = parsed(render(offline, {}))
    spec = one(objects, "Deployment")["spec"]
    assert spec["replicas"] == 2
    # A new pod is ready before an old one is removed.
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pod = spec["template"]["spec"]
    assert "--lease=$(POD_NAMESPACE)/dijob" in pod["containers"][0]["args"]
    (spread,) = pod["topologySpreadConstraints"]
    for selector in (
        spread["labelSelector"],
        one(objects, "PodDisruptionBudget")["spec"]["selector"],
    ):
        assert selector == spec["selector"]
    # A spec would be reset by each upgrade.
    assert one(objects, "Lease", "dijob").keys() == {"apiVersion", "kind", "metadata"}
    role = next(each for each in of(objects, "Role") if each["metadata"]["name"] == "dijob-lease")
    assert role["metadata"]["namespace"] == "dijob-system"
    assert [rule.get("resourceNames") for rule in role["rules"]] == [None, ["dijob"]]
    verbs = {verb for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == set(LEASES.verbs.split())


def test_one_operator_has_no_disruption_budget(offline: Lab) -> None:
    """A disruption budget would block a drain of its node."""
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
    # With two tolerations, the shorter one would apply.
    "one's own": ({"tolerations": [OWN]}, [OWN, brief(NOT_READY, 5)]),
}


@pytest.mark.parametrize(("values", "expected"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_the_operator_is_evicted_from_a_lost_node_early(
    offline: Lab, values: dict[str, Any], expected: Objects
) -> None:
    """The default of Kubernetes is 300 s."""
    pod = one(parsed(render(offline, values)), "Deployment")["spec"]["template"]["spec"]
    assert pod["tolerations"] == expected


def test_every_object_has_the_charts_labels(objects: Objects) -> None:
    for each in objects:
        labels = each["metadata"].get("labels", {})
        assert labels.get("app.kubernetes.io/part-of") == "dijob", (
            f"{each['kind']} {each['metadata']['name']}"
        )


def test_the_flags_follow_the_values(offline: Lab) -> None:
    (container,) = one(parsed(render(offline, {})), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    resources = '{"limits":{"cpu":"1","memory":"2Gi"},"requests":{"cpu":"100m","memory":"64Mi"}}'
    redis = ["--redis-image=redis:7.2-alpine", f"--redis-resources={resources}"]
    assert container["args"] == [
        f"--launcher-image={LAUNCHER_IMAGE}",
        "--launcher-delivery=Auto",
        "--cluster-domain=cluster.local",
        "--scheduling-engine=None",
        "--lost-node-seconds=30",
        *redis,
        "--lease=$(POD_NAMESPACE)/dijob",
        "--channel=$(SERVICE_ACCOUNT)-channel.$(POD_NAMESPACE).svc.cluster.local:8082",
        "--channel-port=8082",
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
        "--scheduling-engine=None",
        "--lost-node-seconds=30",
        *redis,
        "--lease=$(POD_NAMESPACE)/dijob",
        "--network-policies",
        "--channel=$(SERVICE_ACCOUNT)-channel.$(POD_NAMESPACE).svc.cluster.local:9091",
        "--channel-port=9091",
        "--log-level=debug",
        "--log-format=json",
        "--health-port=9090",
        "--job-metrics",
    ]
    assert container["image"] == "dijob/operator@sha256:" + "a" * 64
    assert container["ports"] == [
        {"name": "health", "containerPort": 9090},
        {"name": "channel", "containerPort": 9091},
    ]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "dijob"
    assert pod["metadata"]["labels"]["team"] == "rl"
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_the_optional_objects(offline: Lab) -> None:
    everything = parsed(render(offline, SETS["everything"]))
    monitor = one(everything, "ServiceMonitor")
    labels = one(everything, "Service", "dijob-metrics")["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    rule = one(everything, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((CHART / "files/alerts.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    board = one(everything, "ConfigMap")
    assert board["data"] == {"dijob.json": (CHART / "files/dashboard.json").read_text()}
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    health, channel = one(everything, "NetworkPolicy")["spec"]["ingress"]
    assert health == {
        "from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}],
        "ports": [{"protocol": "TCP", "port": 9090}],
    }
    # The launchers of all jobs.
    assert channel == {
        "from": [{"namespaceSelector": {}}],
        "ports": [{"protocol": "TCP", "port": 9091}],
    }
    service = one(everything, "Service", "dijob-channel")["spec"]
    assert service["ports"] == [{"name": "channel", "port": 9091, "targetPort": "channel"}]


def pod_group_apis(rendered: Objects) -> set[str]:
    """Return the API groups for whose PodGroups the operator has permissions."""
    rules = one(rendered, "ClusterRole", "dijob")["rules"]
    return {
        group for rule in rules if "podgroups" in rule["resources"] for group in rule["apiGroups"]
    }


def test_the_operator_may_write_the_pod_groups_of_the_charts_own_engine(offline: Lab) -> None:
    """Without a cluster, no API of an engine is served."""
    assert pod_group_apis(parsed(render(offline, {}))) == set()
    chosen = {"scheduling": {"engine": "Volcano", "schedulerName": "vc"}}
    found = parsed(render(offline, chosen))
    assert pod_group_apis(found) == {"scheduling.volcano.sh"}
    (container,) = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"--scheduling-engine=Volcano", "--scheduler-name=vc"} <= set(container["args"])


def test_without_a_channel_the_operator_has_one_port(offline: Lab) -> None:
    without = parsed(render(offline, {"launcher": {"channel": False}}))
    (container,) = one(without, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert not any("channel" in argument for argument in container["args"])
    assert container["ports"] == [{"name": "health", "containerPort": 8080}]
    assert not of(without, "Service")


@pytest.mark.parametrize(("channel", "server"), [(True, False), (False, True), (False, False)])
def test_without_a_way_for_progress_there_is_no_column(
    offline: Lab, channel: bool, server: bool
) -> None:
    values = {"launcher": {"channel": channel}, "server": {"enabled": server}}
    crd = one(parsed(render(offline, values)), "CustomResourceDefinition")
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    assert ("Progress" in {column["name"] for column in columns}) is (channel or server)


def test_autoscalers_find_the_progress_of_jobs_at_a_service(offline: Lab) -> None:
    plain, made = (parsed(render(offline, {"jobMetrics": on})) for on in (False, True))
    before, after = (
        {each["metadata"]["name"] for each in of(objects, "Service")} for objects in (plain, made)
    )
    assert (before, after) == ({"dijob-channel"}, {"dijob-channel", "dijob-metrics"})
    (container,) = one(made, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--job-metrics" in container["args"]


def test_a_network_policy_without_peers_admits_no_traffic(offline: Lab) -> None:
    """In Kubernetes, an empty `from` admits all traffic."""
    values = {"networkPolicy": {"enabled": True}, "launcher": {"channel": False}}
    policy = one(parsed(render(offline, values)), "NetworkPolicy")
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
def test_the_schema_rejects_invalid_values_by_name(offline: Lab, setting: str, named: str) -> None:
    said = offline.try_helm("template", "dijob", str(CHART), "--set", setting)
    assert not said.ok
    assert "values don't meet the specifications of the schema" in said.text
    assert named in said.text.partition("schema(s)")[2]
