"""`kubectl dijob explain` on a real cluster: validation, quotas, nodes and permissions."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import Plane, job
from chart.lab import Said
from users import write_kubeconfig

pytestmark = pytest.mark.apiserver

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "small"},
    "spec": {"hard": {"requests.cpu": "1"}},
}


def explain(config: Path | str, body: dict[str, Any] | list[dict[str, Any]], *more: str) -> Said:
    """Run the command with a file of one or several objects."""
    argv = ["explain", "-", "--kubeconfig", str(config), *more]
    done = subprocess.run(
        [sys.executable, "-m", "dijob.cli.main", *argv],
        input=yaml.safe_dump_all(body if isinstance(body, list) else [body]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.stderr, done.stderr
    return Said(done.returncode == 0, done.stdout)


def findings(said: Said) -> dict[str, str]:
    """Return the findings of `-o json`: the verdict of each sentence."""
    return {one["text"]: one["verdict"] for one in json.loads(said.text)["cluster"]["findings"]}


def asking(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """Return a job whose pods request CPUs."""
    made = job(name, **spec)
    main = made["spec"]["template"]["spec"]["containers"][0]
    main["resources"] = {"requests": {"cpu": cpu}}
    return made


def test_a_job_that_fits(plane: Plane) -> None:
    image = "no node has example/x yet; explain does not check whether the registry serves it"
    said = explain(plane.cluster.kubeconfig, asking("fits", "100m"), "-o", "json")
    assert said.ok, said.text
    assert findings(said) == {
        "the cluster accepts the DIJob in namespace default": "yes",
        "the cluster accepts a pod like fits-0": "yes",
        "quotas: the namespace has none": "yes",
        image: "unknown",
        "nodes: all 2 pods fit now (3 nodes ready)": "yes",
    }
    assert plane.get("dijob", "fits") is None
    assert plane.kubectl("get", "pods", "-o", "name").count("dijob-explain") == 0


def test_a_job_that_no_node_takes(plane: Plane) -> None:
    said = explain(plane.cluster.kubeconfig, asking("wide", "4000"), "-o", "json")
    assert not said.ok
    assert "no" in [
        verdict for text, verdict in findings(said).items() if "limited by: cpu" in text
    ]


def test_a_job_that_exists_already(plane: Plane, running: str) -> None:
    said = explain(plane.cluster.kubeconfig, job(running), "-o", "json")
    text = f"the DIJob {running} already exists in namespace default: `apply` would update it"
    assert findings(said)[text]


def test_a_full_quota(plane: Plane) -> None:
    plane.make_namespace("small")
    plane.kubectl("-n", "small", "apply", "-f", "-", stdin=yaml.safe_dump(QUOTA))
    plane.until(
        "the quota is counted",
        lambda: bool(
            json.loads(plane.kubectl("-n", "small", "get", "quota", "small", "-o", "json"))
            .get("status", {})
            .get("hard")
        ),
        lambda: plane.kubectl("-n", "small", "get", "quota", "-o", "yaml"),
    )
    said = explain(plane.cluster.kubeconfig, asking("q", "800m"), "-n", "small", "-o", "json")
    assert not said.ok
    assert findings(said)["quota small is too small: requests.cpu: 1600m needed, 1 left"] == "no"


def test_an_error_that_only_the_apiserver_detects(plane: Plane) -> None:
    body = job("odd")
    body["spec"]["template"]["spec"]["containers"][0]["image"] = ""
    said = explain(plane.cluster.kubeconfig, body, "-o", "json")
    assert not said.ok
    (text,) = [text for text, verdict in findings(said).items() if verdict == "no"]
    assert "rejects" in text


@pytest.fixture
def guest(plane: Plane, tmp_path: Path) -> Iterator[Path]:
    """Yield the kubeconfig of a user who can create DIJobs and nothing else."""
    names = ("role/guest", "rolebinding/guest", "serviceaccount/guest")
    plane.kubectl("create", "serviceaccount", "guest")
    plane.kubectl("create", "role", "guest", "--verb=create", "--resource=dijobs")
    plane.kubectl(
        "create", "rolebinding", "guest", "--role=guest", "--serviceaccount=default:guest"
    )
    # RBAC uses a cache that follows a watch.
    may = ("auth", "can-i", "create", "dijobs", "--as=system:serviceaccount:default:guest")
    plane.until("the guest may create jobs", lambda: plane.ask(*may).ok, lambda: plane.ask(*may))
    token = plane.kubectl("create", "token", "guest")
    yield write_kubeconfig(plane.kubectl, token, tmp_path / "guest")
    plane.kubectl("delete", *names)


def test_a_user_with_few_permissions_gets_unknown_verdicts(plane: Plane, guest: Path) -> None:
    said = explain(guest, asking("mine", "1"), "-o", "json")
    assert said.ok, said.text
    assert findings(said) == {
        "the cluster accepts the DIJob in namespace default": "yes",
        "pods: you lack permission to create pods here, so this was not checked": "unknown",
        "limit ranges: you lack permission to list them, so this was not checked": "unknown",
        "quotas: you lack permission to list them, so this was not checked": "unknown",
        "nodes: you lack permission to list nodes, so room and images were not checked": "unknown",
    }


def needing(name: str, **pod: Any) -> dict[str, Any]:
    """Return a job whose pods need objects."""
    made = job(name)
    made["spec"]["template"]["spec"] |= pod
    return made


# Each kind of object that a pod can refer to. None of them exists.
MISSING = {
    "serviceAccountName": "trainer",
    "priorityClassName": "team-high",
    "runtimeClassName": "kata",
    "imagePullSecrets": [{"name": "regcred"}],
    "volumes": [
        {"name": "code", "configMap": {"name": "code", "items": [{"key": "main.py", "path": "m"}]}},
        {"name": "token", "secret": {"secretName": "token"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {
            "name": "scratch",
            "ephemeral": {
                "volumeClaimTemplate": {
                    "spec": {
                        "storageClassName": "fast",
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        },
    ],
}
CLASS = {"provisioner": "example.com/x", "volumeBindingMode": "WaitForFirstConsumer"}
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "needs"}},
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "team-high"},
        "value": 5,
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        **CLASS,
    },
]
INSIDE: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "regcred"}},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "code"},
        "data": {"other.py": ""},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "storageClassName": "fast",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    },
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "300m"}}]},
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "high"},
        "spec": {
            "hard": {"requests.cpu": "1"},
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["team-high"]}
                ]
            },
        },
    },
]


# A pod whose admission looks up the classes and the limit range.
PROBE = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": "needs"},
        "spec": {
            "priorityClassName": "team-high",
            "runtimeClassName": "kata",
            "containers": [{"name": "a", "image": "example/x"}],
        },
    }
)


@pytest.fixture
def needs(plane: Plane) -> Iterator[Plane]:
    """Yield a cluster that has all objects of MISSING in the namespace `needs`."""
    plane.apply(*OBJECTS)
    placed = [{**one, "metadata": {**one["metadata"], "namespace": "needs"}} for one in INSIDE]
    plane.apply(*placed)
    plane.until(
        "the quota is counted",
        lambda: (
            json.loads(plane.kubectl("-n", "needs", "get", "quota", "high", "-o", "json"))
            .get("status", {})
            .get("hard")
        ),
        lambda: plane.kubectl("-n", "needs", "get", "quota", "-o", "yaml"),
    )

    def admitted() -> bool:
        said = plane.ask("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=PROBE)
        return said.ok and "300m" in said.text

    # Admission plugins use caches, too.
    plane.until("the API server applies all of them", admitted, lambda: None)
    yield plane
    names = [f"{one['kind']}/{one['metadata']['name']}" for one in OBJECTS[1:]]
    plane.kubectl("delete", *names)
    plane.kubectl("delete", "namespace", "needs", "--wait=false")


def test_each_missing_object_is_named(plane: Plane) -> None:
    said = explain(plane.cluster.kubeconfig, needing("lacks", **MISSING), "-o", "json")
    assert not said.ok
    found = findings(said)
    remedy = "create it, or correct the name in the file"
    for title in (
        "ServiceAccount trainer does not exist",
        "PriorityClass team-high does not exist",
        "RuntimeClass kata does not exist",
        "ConfigMap code does not exist",
        "Secret token does not exist",
        "PersistentVolumeClaim data does not exist",
        "StorageClass fast does not exist, which the ephemeral volume scratch needs",
    ):
        assert found[f"{title}: {remedy}"] == "no", found
    pull = "Secret regcred does not exist (imagePullSecrets): images that need it cannot be pulled"
    assert found[pull] == "unknown"


def test_objects_limits_and_quotas_of_a_namespace(needs: Plane) -> None:
    said = explain(needs.cluster.kubeconfig, needing("has", **MISSING), "-n", "needs", "-o", "json")
    found = findings(said)
    good = next(text for text in found if text.startswith("objects that the pods need:"))
    for title in ("ServiceAccount trainer", "PriorityClass team-high", "Secret token"):
        assert title in good
    assert "StorageClass fast" in good
    key = "ConfigMap code has no key main.py, which the pods need"
    # Each container gets the LimitRange's default, and the RuntimeClass adds its overhead.
    limits = "the cluster changes the requests of a pod like has-0 to cpu 550m (LimitRange small)"
    quota = "quota high is too small: requests.cpu: 1100m needed, 1 left"
    assert (found[key], found[limits], found[quota]) == ("no", "yes", "no"), found
    assert not said.ok


def test_objects_of_the_file_count_as_existing(plane: Plane) -> None:
    body = needing("whole", serviceAccountName="own")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own"}}
    said = explain(plane.cluster.kubeconfig, [body, account], "-o", "json")
    found = findings(said)
    assert found["objects that the pods need: ServiceAccount own"] == "yes"
    waits = "ServiceAccount own is in the file but does not exist yet"
    assert found[f"pods: {waits}, so this was not checked"] == "unknown"
    assert said.ok, found


def test_images_that_nodes_have(plane: Plane) -> None:
    nodes = plane.kubectl("get", "nodes", "-o", "name").split()
    images = {"status": {"images": [{"names": ["docker.io/example/x:1"], "sizeBytes": 1}]}}
    for name in nodes:
        plane.kubectl(
            "patch", name, "--subresource=status", "--type=merge", "-p", json.dumps(images)
        )
    body = job("pulled")
    main = body["spec"]["template"]["spec"]["containers"][0]
    main["image"] = "example/x:1"
    said = explain(plane.cluster.kubeconfig, body, "-o", "json")
    assert findings(said)["3 of 3 nodes that can run the pods have example/x:1"] == "yes"
    main |= {"image": "example/y:1", "imagePullPolicy": "Never"}
    said = explain(plane.cluster.kubeconfig, body)
    assert not said.ok
    assert "0 of 3 nodes that can run the pods have example/y:1" in " ".join(said.text.split())


def test_kinds_that_the_user_may_not_read_are_listed_last(guest: Path) -> None:
    said = explain(guest, needing("hidden", **MISSING))
    assert said.ok, said.text
    lines = said.text.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("?"))
    assert not [line for line in lines[first:] if line.startswith(("OK", "NO"))]
    text = " ".join(said.text.split())
    for part in (
        "Secret regcred, token: you lack permission to read secrets in namespace default",
        "ConfigMap code: you lack permission to read configmaps in namespace default",
        "StorageClass fast: you lack permission to read storageclasses, so this was not checked",
    ):
        assert part in text
