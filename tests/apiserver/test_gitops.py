"""C28: kstatus itself, and Argo CD's interpreter with the script of docs/gitops.md, compute the
health of jobs in each phase, and of jobs that a real API server stores. The steps of pipelines on
that page create jobs in it.
"""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from apiserver.plane import Body, Plane, job
from cluster.go_program import build_program
from planes import ROOT
from samples.health import HEALTH_SAMPLES

pytestmark = pytest.mark.apiserver
PAGE = (ROOT / "docs/gitops.md").read_text()
SCRIPT = "resource.customizations.health.diengine.opendilab.org_DIJob"


def script() -> str:
    """Return the health check of the page."""
    return str(block("ConfigMap")["data"][SCRIPT])


def block(kind: str) -> Body:
    """Return the YAML block of the page with an object of this kind."""
    found = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    (one,) = (body for body in found if body["kind"] == kind)
    return dict(one)


def workflow() -> Body:
    """Return the workflow of the page."""
    return block("Workflow")


def healths(tmp_path: Path, bodies: Sequence[Body]) -> list[dict[str, Any]]:
    """Return the health of each object by tool, and the outcome of a step of Argo Workflows."""
    step = workflow()["spec"]["templates"][0]["resource"]
    conditions = (step["successCondition"], step["failureCondition"])
    program = build_program(ROOT / "testing/gitops", "gitops-health")
    file = tmp_path / "health.lua"
    file.write_text(script())
    lines = "\n".join(map(json.dumps, bodies))
    done = subprocess.run(
        [program, file, *conditions], input=lines, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_health_of_a_job_in_each_phase(tmp_path: Path) -> None:
    found = healths(tmp_path, [sample.body() for sample in HEALTH_SAMPLES.values()])
    shown = {
        name: (each["kstatus"]["status"], each["argo"]["status"])
        for name, each in zip(HEALTH_SAMPLES, found, strict=True)
    }
    assert shown == {name: (sample.kstatus, sample.argo) for name, sample in HEALTH_SAMPLES.items()}


def test_the_tools_show_why_a_job_failed(tmp_path: Path) -> None:
    (found,) = healths(tmp_path, [HEALTH_SAMPLES["failed"].body()])
    assert found["kstatus"]["message"] == found["argo"]["message"] == "1 failure"


def test_a_stored_job_is_healthy_only_once_it_runs(
    plane: Plane, running: str, tmp_path: Path
) -> None:
    # The operator never writes the status of this job, as before its first reconciliation.
    plane.apply(job("unseen", managedBy="example.com/other"))
    stored = [plane.get("dijob", name) for name in ("unseen", running)]
    plane.remove("dijob/unseen")
    found = healths(tmp_path, [each for each in stored if each])
    assert [each["kstatus"]["status"] for each in found] == ["InProgress", "Current"]
    assert [each["argo"]["status"] for each in found] == ["Progressing", "Healthy"]


def test_a_step_of_argo_workflows_ends_with_its_job(tmp_path: Path) -> None:
    found = healths(tmp_path, [sample.body() for sample in HEALTH_SAMPLES.values()])
    steps = {name: one["step"] for name, one in zip(HEALTH_SAMPLES, found, strict=True)}
    ended = {"succeeded": "Succeeded", "failed": "Failed", "a deadline": "Failed"}
    assert steps == {name: ended.get(name, "Running") for name in HEALTH_SAMPLES}


def test_the_api_server_accepts_the_job_of_the_workflow(plane: Plane) -> None:
    manifest = workflow()["spec"]["templates"][0]["resource"]["manifest"]
    said = plane.kubectl("create", "--dry-run=server", "-f", "-", "-o", "name", stdin=manifest)
    assert said.startswith("dijob.diengine.opendilab.org/train-")


def run_dijob(plane: Plane, monkeypatch: pytest.MonkeyPatch, **spec: Any) -> str:
    """Run the page's function for pipelines with a job, and return its result."""
    (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    space: dict[str, Any] = {}
    exec(compile(source, "gitops.md", "exec"), space)
    monkeypatch.setenv("KUBECONFIG", str(plane.cluster.kubeconfig))
    return str(space["run_dijob"](yaml.safe_dump(job("piped", **spec)), timeout=60))


def test_a_step_in_python_fails_with_its_job(plane: Plane, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"dijob/piped-[0-9a-f]{8}: .*activeDeadlineSeconds"):
        run_dijob(plane, monkeypatch, activeDeadlineSeconds=1)


def test_a_step_in_python_that_is_cancelled_deletes_its_job(
    plane: Plane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dijob.client.Client.wait", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_dijob(plane, monkeypatch, priority="high")
    listed = json.loads(plane.kubectl("get", "dijobs", "-o", "json"))["items"]
    left = [one for one in listed if one["spec"].get("priority") == "high"]
    assert all(one["metadata"].get("deletionTimestamp") for one in left)


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
