"""C28: kstatus itself, and Argo CD's interpreter with the script of docs/gitops.md, compute the
health of jobs in each phase, and of jobs that a real API server stores.
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
SCRIPT = "resource.customizations.health.diengine.opendilab.org_DIJob"


def script() -> str:
    """Return the health check of the page."""
    page = (ROOT / "docs/gitops.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    (found,) = (block["data"][SCRIPT] for block in blocks if block["kind"] == "ConfigMap")
    return str(found)


def healths(tmp_path: Path, bodies: Sequence[Body]) -> list[dict[str, Any]]:
    """Return the health of each object by tool."""
    program = build_program(ROOT / "testing/gitops", "gitops-health")
    file = tmp_path / "health.lua"
    file.write_text(script())
    lines = "\n".join(map(json.dumps, bodies))
    done = subprocess.run([program, file], input=lines, capture_output=True, text=True, timeout=60)
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
