"""`explain` finds the objects and images that pods need, and judges those of the cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from dijob.cli.errors import Exit
from dijob.cli.explain.existence import (
    default_class,
    is_bound,
    judge_missing,
    judge_object,
    merge_findings,
)
from dijob.cli.explain.fit import FitFinding, free_resources
from dijob.cli.explain.images import full_name, images_of, into_images
from dijob.cli.explain.limits import changed_requests
from dijob.cli.explain.references import ObjectReference, references_of, storage_class_of
from dijob.cli.main import group

Body = dict[str, Any]


def pod(*volumes: Body, **container: Any) -> Body:
    return {"containers": [{"name": "c", **container}], "volumes": list(volumes)}


def variable(source: str, **given: Any) -> list[Body]:
    return [{"name": "V", "valueFrom": {source: given}}]


CLAIM_TEMPLATE = {"spec": {"storageClassName": "fast"}}
REFERENCES = [
    pytest.param(pod(), [], id="nothing"),
    pytest.param(
        pod(env=variable("configMapKeyRef", name="a", key="k")),
        [("ConfigMap", "a", "no", {"k"})],
        id="a key of a ConfigMap",
    ),
    pytest.param(
        pod(env=variable("secretKeyRef", name="a", key="k", optional=True)),
        [("Secret", "a", "yes", set())],
        id="an optional key",
    ),
    pytest.param(
        pod(envFrom=[{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}]),
        [("ConfigMap", "a", "no", set()), ("Secret", "b", "no", set())],
        id="all keys as variables",
    ),
    pytest.param(
        pod({"name": "v", "configMap": {"name": "a", "items": [{"key": "x"}, {"key": "y"}]}}),
        [("ConfigMap", "a", "no", {"x", "y"})],
        id="files of a ConfigMap",
    ),
    pytest.param(
        pod({"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}),
        [("Secret", "s", "no", set())],
        id="a projected Secret",
    ),
    pytest.param(
        pod({"name": "v", "persistentVolumeClaim": {"claimName": "data"}}),
        [("PersistentVolumeClaim", "data", "no", set())],
        id="a claim",
    ),
    pytest.param(
        pod({"name": "v", "ephemeral": {"volumeClaimTemplate": CLAIM_TEMPLATE}}),
        [("StorageClass", "fast", "no", set())],
        id="an ephemeral volume",
    ),
    pytest.param(
        {"serviceAccountName": "trainer", "priorityClassName": "high", "runtimeClassName": "kata"},
        [
            ("ServiceAccount", "trainer", "no", set()),
            ("PriorityClass", "high", "no", set()),
            ("RuntimeClass", "kata", "no", set()),
        ],
        id="fields of the pod",
    ),
    pytest.param({"serviceAccountName": "default"}, [], id="the default service account"),
    pytest.param(
        {"imagePullSecrets": [{"name": "regcred"}]},
        [("Secret", "regcred", "unknown", set())],
        id="a pull secret",
    ),
    pytest.param(
        {
            **pod({"name": "v", "secret": {"secretName": "s", "optional": True}}),
            "initContainers": [{"env": variable("secretKeyRef", name="s", key="k")}],
        },
        [("Secret", "s", "no", {"k"})],
        id="optional in one place, needed in another",
    ),
    pytest.param(
        {"volumes": 1, "containers": [{"env": "x", "envFrom": [{"secretRef": 2}]}]},
        [],
        id="wrong types",
    ),
]


@pytest.mark.parametrize(("spec", "expected"), REFERENCES)
def test_the_objects_that_a_pod_needs(spec: Body, expected: list[Any]) -> None:
    found = references_of([(spec, 1)])
    assert [(one.kind, one.name, one.missing, set(one.keys)) for one in found] == expected


def test_the_pods_of_all_templates_are_counted() -> None:
    claim = pod({"name": "v", "persistentVolumeClaim": {"claimName": "data"}})
    (found,) = references_of([(claim, 2), (claim, 3)])
    assert found.pods == 5


@pytest.mark.parametrize(
    ("claim", "classes"),
    [
        pytest.param({"spec": {"storageClassName": "fast"}}, ["fast"], id="named"),
        pytest.param({"spec": {}}, [""], id="the default"),
        pytest.param({"spec": {"storageClassName": ""}}, [], id="none"),
        pytest.param({"spec": {"volumeName": "pv"}}, [], id="a volume"),
    ],
)
def test_the_storage_class_of_a_claim(claim: Body, classes: list[str]) -> None:
    assert [one.name for one in storage_class_of(claim, "x")] == classes


def needs(kind: str, name: str = "x", pods: int = 1, *keys: str) -> ObjectReference:
    return ObjectReference(kind, name, keys=frozenset(keys), pods=pods)


def claim(*modes: str, phase: str = "Bound") -> Body:
    return {"spec": {"accessModes": list(modes)}, "status": {"phase": phase}}


CLAIM = "PersistentVolumeClaim"
JUDGED = [
    pytest.param(needs("ServiceAccount"), {}, "yes", "ServiceAccount x", id="it exists"),
    pytest.param(
        needs("Secret", "x", 1, "a", "b"),
        {"data": {"a": ""}},
        "no",
        "Secret x has no key b, which the pods need",
        id="a key is missing",
    ),
    pytest.param(
        needs("Secret", "x", 1, "a"), {"stringData": {"a": ""}}, "yes", "Secret x", id="in a file"
    ),
    pytest.param(
        needs("ConfigMap", "x", 1, "a"), {"binaryData": {"a": ""}}, "yes", "ConfigMap x", id="bytes"
    ),
    pytest.param(
        needs(CLAIM), claim("ReadWriteOnce"), "yes", f"{CLAIM} x", id="a claim for one pod"
    ),
    pytest.param(
        needs(CLAIM, pods=2),
        claim("ReadWriteOnce"),
        "unknown",
        f"{CLAIM} x is ReadWriteOnce, and 2 pods mount it: they can only run on one node",
        id="a claim for one node",
    ),
    pytest.param(
        needs(CLAIM, pods=2),
        claim("ReadWriteOncePod"),
        "no",
        f"{CLAIM} x is ReadWriteOncePod, and 2 pods mount it",
        id="a claim for one pod that two mount",
    ),
    pytest.param(
        needs(CLAIM, pods=2), claim("ReadWriteMany"), "yes", f"{CLAIM} x", id="a claim for all"
    ),
    pytest.param(
        needs(CLAIM),
        claim("ReadWriteOnce", phase="Lost"),
        "no",
        f"{CLAIM} x has lost its volume (phase Lost)",
        id="a lost volume",
    ),
    pytest.param(
        needs("ConfigMap"),
        {"metadata": {"deletionTimestamp": "now"}},
        "no",
        "ConfigMap x is being deleted",
        id="it is being deleted",
    ),
]


@pytest.mark.parametrize(("reference", "body", "verdict", "text"), JUDGED)
def test_objects_that_exist(
    reference: ObjectReference, body: Body, verdict: str, text: str
) -> None:
    assert judge_object(reference, body) == FitFinding(verdict, text)


MISSING = [
    pytest.param(
        ObjectReference("ConfigMap", "x"),
        "no",
        "ConfigMap x does not exist: create it, or correct the name in the file",
        id="needed",
    ),
    pytest.param(
        ObjectReference("Secret", "x", "yes"),
        "yes",
        "Secret x does not exist, but is optional",
        id="optional",
    ),
    pytest.param(
        ObjectReference("Secret", "x", "unknown"),
        "unknown",
        "Secret x does not exist (imagePullSecrets): images that need it cannot be pulled",
        id="a pull secret",
    ),
    pytest.param(
        ObjectReference("StorageClass", "", user="the ephemeral volume v"),
        "no",
        "the cluster has no default StorageClass, which the ephemeral volume v needs: name one in"
        " storageClassName",
        id="no default class",
    ),
    pytest.param(
        ObjectReference("StorageClass", "fast", user=f"{CLAIM} x"),
        "no",
        f"StorageClass fast does not exist, which {CLAIM} x needs: create it, or correct the name"
        " in the file",
        id="no such class",
    ),
]


@pytest.mark.parametrize(("reference", "verdict", "text"), MISSING)
def test_objects_that_do_not_exist(reference: ObjectReference, verdict: str, text: str) -> None:
    assert judge_missing(reference) == FitFinding(verdict, text)


def test_objects_without_problems_share_a_line() -> None:
    found = [FitFinding("yes", "ConfigMap a"), FitFinding("no", "b"), FitFinding("yes", "Secret c")]
    assert merge_findings(found) == [
        FitFinding("yes", "objects that the pods need: ConfigMap a, Secret c"),
        FitFinding("no", "b"),
    ]


def test_a_claim_that_is_bound_needs_no_class() -> None:
    assert is_bound(claim("ReadWriteOnce"))
    assert not is_bound(claim("ReadWriteOnce", phase="Pending"))


def test_the_default_storage_class() -> None:
    marked = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    classes: list[Body] = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b", **marked}}]
    assert default_class(classes) == classes[1]
    assert default_class(classes[:1]) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param("busybox", "docker.io/library/busybox:latest", id="a short name"),
        pytest.param("my/image:1", "docker.io/my/image:1", id="a tag"),
        pytest.param("quay.io/a/b", "quay.io/a/b:latest", id="a registry"),
        pytest.param("localhost/b:1", "localhost/b:1", id="this machine"),
        pytest.param("host:5000/b", "host:5000/b:latest", id="a port"),
        pytest.param("a/b:1@sha256:00", "docker.io/a/b@sha256:00", id="a digest"),
    ],
)
def test_the_name_of_an_image_on_a_node(given: str, expected: str) -> None:
    assert full_name(given) == expected


def node(name: str, *images: str, **spec: Any) -> Body:
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "images": [{"names": list(images)}],
    }
    return {"metadata": {"name": name}, "spec": spec, "status": status}


HAS = "docker.io/my/image:1"
TAINTED = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
NODES = [
    pytest.param([node("a", HAS)], "", "yes", "1 of 1 node that can run the pods have", id="all"),
    pytest.param([node("a", HAS), node("b")], "", "unknown", "to the other nodes", id="some"),
    pytest.param([node("a")], "", "unknown", "no node has my/image:1 yet", id="none"),
    pytest.param([node("a", HAS)], "Always", "unknown", "needs the registry", id="always pulled"),
    pytest.param([node("a")], "Never", "no", "0 of 1 node", id="never pulled"),
    pytest.param([node("a", HAS)], "Never", "yes", "1 of 1 node", id="never pulled, and there"),
    pytest.param(
        [node("a", *map(str, range(50)))], "Never", "unknown", "50 largest", id="the list is full"
    ),
    pytest.param(
        [node("a", HAS, **TAINTED), node("b")], "", "unknown", "no node has", id="a tainted node"
    ),
]


@pytest.mark.parametrize(("nodes", "policy", "verdict", "text"), NODES)
def test_images_of_nodes(nodes: list[Body], policy: str, verdict: str, text: str) -> None:
    spec = pod(image="my/image:1", **({"imagePullPolicy": policy} if policy else {}))
    uses = [(spec, use) for use in images_of(spec)]
    (found,) = into_images(uses, free_resources(nodes, ()))
    assert (found.verdict, text in found.text) == (verdict, True), found.text


def test_without_a_node_nothing_is_said_about_images() -> None:
    spec = pod(image="my/image")
    assert into_images([(spec, use) for use in images_of(spec)], []) == []


def test_an_image_without_a_tag_is_always_pulled() -> None:
    assert [use.policy for use in images_of(pod(image="my/image"))] == ["Always"]


def requests(cpu: str) -> Body:
    return pod(resources={"requests": {"cpu": cpu}})


def test_requests_that_the_cluster_adds_are_reported() -> None:
    (found,) = changed_requests([("a-0", requests("1"), requests("2"))], ["small"])
    assert found.text == (
        "the cluster changes the requests of a pod like a-0 to cpu 2 (LimitRange small)"
    )
    assert changed_requests([("a-0", requests("1"), requests("1"))], ["small"]) == []


JOB = """
apiVersion: diengine.opendilab.org/v2alpha1
kind: DIJob
metadata: {name: a}
spec:
  replicas: 1
  template:
    spec:
      serviceAccountName: trainer
      containers:
      - name: di-container
        image: my/image
        command: [ditask, --package, m, --main, m.main]
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: token}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""


def test_offline_lists_what_was_not_checked(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    done = CliRunner().invoke(group, ["explain", str(file), "--offline", "-o", "json"])
    assert done.exit_code == Exit.OK, done.output
    cluster = json.loads(done.output)["cluster"]
    (finding,) = cluster["findings"]
    assert (cluster["asked"], cluster["why"]) == (False, "not checked: --offline")
    assert finding["verdict"] == "unknown"
    # The ConfigMap is in the file.
    assert finding["text"] == (
        "not checked without a cluster: Secret token, ServiceAccount trainer, whether the cluster"
        " accepts the job and its pods, quotas and limit ranges, images on the nodes, room on the"
        " nodes"
    )
