"""The migration from DI-orchestrator's CRD: the commands of docs/migration.md, verbatim, on a real
apiserver.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import Plane, operator
from apiserver.theirs import MANIFESTS, NORMAL, Body, body
from cluster import CONTROL_PLANE, Options, up
from cluster.shell import until_established
from manifests import CRD
from planes import ROOT
from workers import own

pytestmark = pytest.mark.apiserver

THEIR_CRD = MANIFESTS / "crd.yaml"
TIME = "2022-07-01T08:00:00Z"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    """Yield a control plane without our CRD and without an operator."""
    with up(
        Options(name=own("migration"), mode=CONTROL_PLANE, kwok_nodes=1, quiet=True)
    ) as cluster:
        yield Plane(cluster, tmp_path / "log")


def steps() -> dict[int, str]:
    """Return the commands of each numbered step of the document."""
    page = (ROOT / "docs/migration.md").read_text()
    found = re.split(r"^### (\d+) .*$", page, flags=re.MULTILINE)
    return {
        int(number): "\n".join(re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
        for number, text in zip(found[1::2], found[2::2], strict=True)
    }


@pytest.fixture
def do(plane: Plane, tmp_path: Path) -> Any:
    """Return a function that runs one step, in a folder that looks like a checkout."""
    commands = steps()
    for name in ("crds", "charts"):
        (tmp_path / name).symlink_to(ROOT / name)

    def run(step: int) -> str:
        said = plane.lab.run("bash", "-euo", "pipefail", "-c", f"cd {tmp_path}\n{commands[step]}")
        assert said.ok, f"step {step}: {said.text}"
        return said.text

    return run


def their_crd(storage: str) -> Body:
    crd: Body = yaml.safe_load(THEIR_CRD.read_text())
    for version in crd["spec"]["versions"]:
        version["storage"] = version["name"] == storage
    return crd


def create(plane: Plane, name: str, version: str, phase: str) -> None:
    """Create a job with the fields and the status that DI-orchestrator leaves."""
    made = body(NORMAL)
    made["apiVersion"] = f"diengine.opendilab.org/{version}"
    made["metadata"] = {"name": name}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(made))
    condition = {"type": phase, "status": "True", "reason": f"Job{phase}", "message": "m"}
    condition |= {"lastUpdateTime": TIME, "lastTransitionTime": TIME}
    status = {
        "phase": phase,
        "replicas": 4,
        "reschedules": 0,
        "profilings": {},
        "conditions": [condition],
    }
    patch = json.dumps({"status": status})
    plane.kubectl("patch", "dijobs", name, "--subresource=status", "--type=merge", "-p", patch)


def their_pod(plane: Plane, job: str, task: str, rank: int) -> None:
    owner = plane.get("dijobs", job)
    assert owner is not None
    reference = {key: owner[key] for key in ("apiVersion", "kind")} | {"controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    labels = {"diengine/operator": "di-operator", "diengine/job": job, "diengine/task-type": task}
    container = {"name": "di-container", "image": "example/x", "command": ["sleep", "9999"]}
    meta = {
        "name": f"{job}-{task}-0",
        "labels": labels,
        "annotations": {"diengine/rank": str(rank)},
    }
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**meta, "ownerReferences": [reference]},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    plane.apply(made)


def deployment(name: str) -> Body:
    labels = {"control-plane": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "a", "image": "example/x"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "di-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }


def stored(plane: Plane) -> list[str]:
    found: list[str] = (plane.get("crd", CRD) or {})["status"]["storedVersions"]
    return found


def all_pods(plane: Plane) -> dict[str, str]:
    """Return the uids of the pods in the jobs' namespace by name."""
    listed = json.loads(plane.kubectl("get", "pods", "-o", "json"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in listed}


def _theirs_with_history(plane: Plane) -> None:
    """Create a cluster in which DI-orchestrator was upgraded from 0.x: one job is stored as
    v1alpha1.
    """
    plane.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "di-system"}})
    plane.apply(their_crd("v1alpha1"), deployment("di-operator"), deployment("di-server"))
    until_established(plane.kubectl, CRD)
    plane.until(
        "v1alpha1 is served",
        lambda: plane.ask("get", "dijobs").ok,
        lambda: plane.ask("get", "dijobs"),
    )
    create(plane, "ended", "v1alpha1", "Succeeded")
    plane.apply(their_crd("v2alpha1"))
    plane.until("two versions are stored", lambda: len(stored(plane)) == 2, lambda: stored(plane))
    create(plane, "failed", "v2alpha1", "Failed")
    create(plane, "runs", "v2alpha1", "Running")
    their_pod(plane, "runs", "learner", 0)
    their_pod(plane, "ended", "learner", 0)


def _phases(plane: Plane) -> dict[str, str]:
    listed = json.loads(plane.kubectl("get", "dijobs", "-o", "json"))["items"]
    return {job["metadata"]["name"]: job["status"].get("phase") for job in listed}


def test_the_steps_of_the_document(plane: Plane, do: Any, tmp_path: Path) -> None:
    _theirs_with_history(plane)
    pods = all_pods(plane)
    assert sorted(pods) == ["ended-learner-0", "runs-learner-0"]

    assert 'stored: ["v1alpha1","v2alpha1"]' in do(1)
    assert "name: ended" in (tmp_path / "dijobs-before.yaml").read_text()
    do(2)
    paused = {
        name: bool((plane.get("dijobs", name) or {})["metadata"].get("annotations"))
        for name in _phases(plane)
    }
    assert paused == {"ended": False, "failed": False, "runs": True}
    do(3)
    assert plane.kubectl("get", "pods", "-n", "di-system", "-o", "name") == ""

    early = plane.ask("replace", "-f", str(ROOT / "crds/dijob.yaml"))
    # The message of 1.37 is "missing from spec.versions", of 1.30 "must appear in spec.versions".
    assert 'status.storedVersions[0]: Invalid value: "v1alpha1"' in early.text
    assert "spec.versions" in early.text
    do(4)
    assert stored(plane) == ["v2alpha1"]
    # The reason for step 5: the chart rejects a CRD that it does not own.
    refused = plane.lab.try_helm(
        "install", "dijob", str(ROOT / "charts/dijob"), "-n", "dijob-system", "--create-namespace"
    )
    assert "Nothing was changed" in refused.text
    do(5)
    assert _phases(plane) == {"ended": "Succeeded", "failed": "Failed", "runs": "Running"}
    do(6)
    with operator(plane.cluster.kubeconfig, plane.log):
        plane.until_condition("runs", "Paused", "True", seconds=60)
        plane.until(
            "all were looked at",
            lambda: _seen(plane),
            lambda: plane.kubectl("get", "dij", "-o", "yaml"),
        )
        assert 'v2alpha1 stored: ["v2alpha1"]' in do(7)
        _ours_is_in_force(plane)
        # When a job that was created last is Running, the operator has reconciled the others, and
        # has created no pods for them.
        plane.apply(yaml.safe_load((MANIFESTS / NORMAL).read_text()))
        plane.until_condition("normal-job", "Running", "True", seconds=60)
        left = {
            name: uid for name, uid in all_pods(plane).items() if not name.startswith("normal-job")
        }
        assert left == pods
        assert _label(plane) is None
        _has_not_been_run_again(plane)
        # As the document warns: without the annotation, a pod with the name of ours is taken over.
        plane.kubectl("annotate", "dij", "runs", "diengine.opendilab.org/paused-")
        plane.until(
            "the pod is taken over",
            lambda: _label(plane) == "dijob-operator",
            lambda: _label(plane),
        )
    plane.lab.helm("uninstall", "dijob", "-n", "dijob-system")
    plane.kubectl("replace", "-f", str(THEIR_CRD))
    assert _phases(plane) | {"ended": "Succeeded", "failed": "Failed"} == _phases(plane)
    assert set(_phases(plane)) == {"ended", "failed", "runs", "normal-job"}


def _ours_is_in_force(plane: Plane) -> None:
    crd = plane.get("crd", CRD) or {}
    assert [(v["name"], "scale" in v["subresources"]) for v in crd["spec"]["versions"]] == [
        ("v2alpha1", True)
    ]
    assert crd["metadata"]["labels"]["app.kubernetes.io/part-of"] == "dijob"
    assert "controller-gen.kubebuilder.io/version" not in crd["metadata"]["annotations"]


def _has_not_been_run_again(plane: Plane) -> None:
    phases = _phases(plane)
    assert (phases["ended"], phases["failed"]) == ("Succeeded", "Failed")
    conditions = (plane.get("dij", "ended") or {})["status"]["conditions"]
    ended = [(c["status"], c["lastTransitionTime"]) for c in conditions if c["type"] == "Succeeded"]
    assert ended == [("True", TIME)]


def _label(plane: Plane) -> str | None:
    """Return the label by which our operator finds the pod that DI-orchestrator left running; None
    without the label, and while the operator replaces the pod after it has taken it over.
    """
    if (pod := plane.get("pod", "runs-learner-0")) is None:
        return None
    labels: dict[str, str] = pod["metadata"]["labels"]
    return labels.get("app.kubernetes.io/managed-by")


def _seen(plane: Plane) -> bool:
    listed = json.loads(plane.kubectl("get", "dij", "-o", "json"))["items"]
    # The CRD sets -1 in new jobs.
    return all(job["status"].get("observedGeneration", -1) > 0 for job in listed)
