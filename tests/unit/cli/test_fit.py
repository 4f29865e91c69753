"""`explain` estimates whether pods fit on nodes and into quotas."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dijob.cli.errors import Exit
from dijob.cli.explain.fit import free_resources, into_nodes, into_quotas
from dijob.cli.main import group

Body = dict[str, Any]

READY = [{"type": "Ready", "status": "True"}]


def node(name: str = "n", cpu: str = "4", **spec: Any) -> Body:
    labels = spec.pop("labels", {})
    ready = spec.pop("ready", READY)
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10", **spec.pop("more", {})}
    status = {"allocatable": allocatable, "conditions": ready}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def spec(cpu: str = "1", **more: Any) -> Body:
    resources = {"requests": {"cpu": cpu}, **more.pop("resources", {})}
    ports = more.pop("ports", [])
    return {"containers": [{"name": "c", "resources": resources, "ports": ports}], **more}


def running(on: str, cpu: str, phase: str = "Running") -> Body:
    return {"spec": {**spec(cpu), "nodeName": on}, "status": {"phase": phase}}


TAINT = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
NODES = [
    pytest.param([node()], [], [spec()] * 4, "yes", "all 4 pods fit now (1 node ready)", id="fits"),
    pytest.param([node()], [], [spec()] * 5, "no", "4 of 5 pods fit now", id="one too many"),
    pytest.param([node(), node("m")], [], [spec("3")] * 2, "yes", "all 2", id="on two nodes"),
    pytest.param([node()], [running("n", "3")], [spec("2")], "no", "limited by: cpu", id="taken"),
    pytest.param(
        [node()], [running("n", "3", "Succeeded")], [spec("2")], "yes", "all 1", id="it has ended"
    ),
    pytest.param([node(unschedulable=True)], [], [spec()], "no", "0 nodes", id="cordoned"),
    pytest.param([node(ready=[])], [], [spec()], "no", "no node is ready", id="not ready"),
    pytest.param([node(taints=TAINT)], [], [spec()], "no", "taint gpu", id="tainted"),
    pytest.param(
        [node(taints=TAINT)],
        [],
        [spec(tolerations=[{"key": "gpu", "operator": "Exists"}])],
        "yes",
        "all 1",
        id="tolerated",
    ),
    pytest.param(
        [node(taints=TAINT)],
        [],
        [spec(tolerations=[{"key": "gpu", "value": "no"}])],
        "no",
        "taint gpu",
        id="another value",
    ),
    pytest.param(
        [node(taints=[{"key": "a", "effect": "PreferNoSchedule"}])],
        [],
        [spec()],
        "yes",
        "all 1",
        id="a taint that only prefers",
    ),
    pytest.param(
        [node(labels={"kind": "a"})],
        [],
        [spec(nodeSelector={"kind": "b"})],
        "no",
        "nodeSelector",
        id="another label",
    ),
    pytest.param(
        [node()],
        [],
        [spec(resources={"limits": {"nvidia.com/gpu": "1"}})],
        "no",
        "nvidia.com/gpu",
        id="no GPU",
    ),
    pytest.param(
        [node(more={"nvidia.com/gpu": "2"})],
        [],
        [spec(resources={"limits": {"nvidia.com/gpu": "1"}})] * 2,
        "yes",
        "all 2",
        id="GPUs",
    ),
    pytest.param(
        [node()],
        [],
        [spec(hostNetwork=True, ports=[{"containerPort": 50515}])] * 2,
        "no",
        "a host port",
        id="two ranks in one node's network",
    ),
    pytest.param([node()], [], [spec("0")] * 11, "no", "limited by: pods", id="too many pods"),
    pytest.param([node()], [], [spec(affinity={})], "yes", "all 1", id="an empty affinity"),
    pytest.param(
        [node()],
        [],
        [spec(affinity={"podAntiAffinity": {"x": 1}})],
        "yes",
        "affinity and topology spread constraints are not checked",
        id="affinity",
    ),
]


@pytest.mark.parametrize(("nodes", "pods", "specs", "verdict", "said"), NODES)
def test_nodes(
    nodes: list[Body], pods: list[Body], specs: list[Body], verdict: str, said: str
) -> None:
    found = into_nodes(specs, len(specs), free_resources(nodes, pods))
    assert (found.verdict, said in found.text) == (verdict, True), found.text


def test_a_job_may_begin_with_fewer_pods() -> None:
    found = into_nodes([spec()] * 5, 3, free_resources([node()], []))
    assert found.verdict == "yes"
    assert "4 of 5 pods fit now (1 node ready); limited by: cpu; the job starts with 3" in (
        found.text
    )


@pytest.mark.parametrize(
    ("minimum", "together", "verdict", "said"),
    [
        (3, 5, "no", "limited by: cpu; no pod gets a node until 5 fit at the same time"),
        (5, 2, "no", "limited by: cpu"),
        (2, 3, "yes", "limited by: cpu; the job starts with 3"),
        (3, 2, "yes", "limited by: cpu; the job starts with 3"),
    ],
)
def test_a_gang_needs_room_for_all_of_it(
    minimum: int, together: int, verdict: str, said: str
) -> None:
    found = into_nodes([spec()] * 5, minimum, free_resources([node()], []), together)
    assert found.verdict == verdict
    assert found.text.endswith(said)


def quota(hard: Mapping[str, str], used: Mapping[str, str], **more: Any) -> Body:
    return {"metadata": {"name": "q"}, "spec": more, "status": {"hard": hard, "used": used}}


QUOTAS = [
    pytest.param(quota({"pods": "2"}, {"pods": "0"}), "yes", "quota q is large enough", id="room"),
    pytest.param(
        quota({"pods": "2"}, {"pods": "1"}), "no", "pods: 2 needed, 1 left", id="too many pods"
    ),
    pytest.param(
        quota({"count/pods": "1"}, {}), "no", "count/pods: 2 needed, 1 left", id="counted"
    ),
    pytest.param(
        quota({"requests.cpu": "3"}, {"requests.cpu": "1500m"}),
        "no",
        "requests.cpu: 2 needed, 1500m left",
        id="CPUs",
    ),
    pytest.param(
        quota({"limits.memory": "1Gi"}, {}), "yes", "large enough", id="no limits are set"
    ),
    pytest.param(
        quota({"secrets": "1"}, {"secrets": "1"}), "yes", "large enough", id="something else"
    ),
    pytest.param(
        quota({"pods": "0"}, {}, scopes=["BestEffort"]), "yes", "does not apply", id="best effort"
    ),
    pytest.param(
        quota({"pods": "0"}, {}, scopes=["NotBestEffort", "NotTerminating"]),
        "no",
        "pods: 2 needed, 0 left",
        id="both scopes apply",
    ),
    pytest.param(
        quota({"pods": "0"}, {}, scopes=["Terminating"]), "yes", "does not apply", id="no deadline"
    ),
    pytest.param(
        quota({"pods": "0"}, {}, scopes=["CrossNamespacePodAffinity"]),
        "unknown",
        "not checked, because of its scopes",
        id="a scope that is not modeled",
    ),
    pytest.param(
        quota({"services": "1"}, {"services": "1"}), "no", "services: 1 needed, 0 left", id="full"
    ),
    pytest.param(
        quota({"count/dijobs.diengine.opendilab.org": "3"}, {}), "yes", "large enough", id="jobs"
    ),
]


@pytest.mark.parametrize(("found", "verdict", "said"), QUOTAS)
def test_quotas(found: Body, verdict: str, said: str) -> None:
    (line,) = into_quotas([spec()] * 2, [found], ["DIJob", "Service"])
    assert (line.verdict, said in line.text) == (verdict, True), line.text


@pytest.mark.parametrize(
    ("operator", "values", "applies"),
    [
        pytest.param("In", ["high"], True, id="in"),
        pytest.param("In", ["low"], False, id="not in the list"),
        pytest.param("NotIn", ["low"], True, id="not in"),
        pytest.param("Exists", [], True, id="exists"),
        pytest.param("DoesNotExist", [], False, id="does not exist"),
    ],
)
def test_a_quota_of_a_priority_class(operator: str, values: list[str], applies: bool) -> None:
    scope = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    limited = quota({"pods": "0"}, {}, scopeSelector={"matchExpressions": [scope]})
    (line,) = into_quotas([spec(priorityClassName="high")], [limited])
    assert line.verdict == ("no" if applies else "yes"), line.text


def test_a_quota_counts_the_claims_of_ephemeral_volumes() -> None:
    claim = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    pod = spec(volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}])
    limited = quota({"requests.storage": "1Gi", "persistentvolumeclaims": "2"}, {})
    (line,) = into_quotas([pod] * 2, [limited])
    assert line.text == "quota q is too small: requests.storage: 2Gi needed, 1Gi left"


def test_a_namespace_without_a_quota() -> None:
    (line,) = into_quotas([spec()], [])
    assert (line.verdict, line.text) == ("yes", "quotas: the namespace has none")


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param(KUBECONFIG, "cannot reach the cluster at http://127.0.0.1:1", id="no answer"),
        pytest.param("", "not checked: the ", id="an empty kubeconfig"),
        pytest.param("[1]", "not checked: the ", id="a list"),
        pytest.param("contexts: 1", "not checked: the ", id="something else"),
        pytest.param(None, "not checked: there is no kubeconfig at", id="none"),
    ],
)
def test_without_a_cluster_the_reason_is_reported(
    tmp_path: Path, config: str | None, said: str
) -> None:
    path = tmp_path / "config"
    if config is not None:
        path.write_text(config)
    file = Path(__file__).parents[3] / "examples/dijob.yaml"
    done = CliRunner().invoke(group, ["explain", str(file), "--kubeconfig", str(path)])
    assert done.exit_code == Exit.OK, done.output
    text = " ".join(done.output.split())
    assert said in text
