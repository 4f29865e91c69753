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

pytestmark = pytest.mark.apiserver

QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "small"},
    "spec": {"hard": {"requests.cpu": "1"}},
}


def explain(config: Path | str, body: dict[str, Any], *more: str) -> Said:
    """Run the command."""
    argv = ["explain", "-", "--kubeconfig", str(config), *more]
    done = subprocess.run(
        [sys.executable, "-m", "dijob.cli.main", *argv],
        input=yaml.safe_dump(body),
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
    said = explain(plane.cluster.kubeconfig, asking("fits", "100m"), "-o", "json")
    assert said.ok, said.text
    assert findings(said) == {
        "the cluster accepts the DIJob in namespace default": "yes",
        "the cluster accepts a pod like fits-0": "yes",
        "nodes: all 2 pods fit now (3 nodes ready)": "yes",
        "quotas: the namespace has none": "yes",
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
    plane.kubectl("create", "namespace", "small")
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
    config = yaml.safe_load(Path(plane.cluster.kubeconfig).read_text())
    config["users"][0]["user"] = {"token": plane.kubectl("create", "token", "guest").strip()}
    path = tmp_path / "guest"
    path.write_text(yaml.safe_dump(config))
    yield path
    plane.kubectl("delete", *names)


def test_a_user_with_few_permissions_gets_unknown_verdicts(plane: Plane, guest: Path) -> None:
    said = explain(guest, asking("mine", "1"), "-o", "json")
    assert said.ok, said.text
    assert findings(said) == {
        "the cluster accepts the DIJob in namespace default": "yes",
        "pods: you may not create pods here, so this was not checked": "unknown",
        "nodes: you may not list nodes, so this was not checked": "unknown",
        "quotas: you may not list them, so this was not checked": "unknown",
    }
