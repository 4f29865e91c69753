"""kubectl on a valid job: scale, wait, columns, explain. Every example is accepted."""

import json
from pathlib import Path

import pytest
from apiserver.plane import Plane, changed, job
from cluster.waiting import until_true
from planes import ROOT

pytestmark = pytest.mark.apiserver

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def test_scale_works_for_a_job_without_replicas(plane: Plane, untouched: str) -> None:
    path = f"/apis/diengine.opendilab.org/v2alpha1/namespaces/default/dijobs/{untouched}/scale"
    scale = json.loads(plane.kubectl("get", "--raw", path))
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 2, "selector": f"diengine.opendilab.org/job={untouched}"}


def test_kubectl_scale(plane: Plane, untouched: str) -> None:
    try:
        plane.apply(job("scaled", minReplicas=2, maxReplicas=3, replicas=2))
        plane.until_condition("scaled", "Running", "True")
        plane.kubectl("scale", "dijob", "scaled", "--replicas=3")
        plane.until(
            "three pods run",
            lambda: _ready(plane, "scaled") == 3,
            lambda: plane.get("dijob", "scaled"),
            60,
        )
        assert len(plane.pods("scaled")) == 3
    finally:
        plane.remove("dijob/scaled")


def _ready(plane: Plane, name: str) -> int:
    return int((plane.get("dijob", name) or {})["status"]["readyReplicas"])


def test_wait_for_a_condition(plane: Plane, untouched: str) -> None:
    made = changed(job("ends"), "spec.template.metadata.annotations", {"test.dijob/exit": "0"})
    try:
        plane.apply(made)
        said = plane.ask("wait", "--for=condition=Succeeded", "dijob/ends", "--timeout=40s")
        assert said.ok, f"{said.text}; {plane.get('dijob', 'ends')}"
        status = (plane.get("dijob", "ends") or {})["status"]
        assert (status["phase"], status["succeededRanks"]) == ("Succeeded", "0-1")
    finally:
        plane.remove("dijob/ends")


def test_a_wait_for_the_end_also_returns_for_a_failed_job(
    plane: Plane,
) -> None:
    try:
        plane.apply(job("fails", activeDeadlineSeconds=1))
        said = plane.ask("wait", "--for=condition=Finished", "dijob/fails", "--timeout=40s")
        assert said.ok, f"{said.text}; {plane.get('dijob', 'fails')}"
        shown = plane.kubectl(
            "get", "dijob", "fails", "-o", "jsonpath={.status.phase}: {.status.message}"
        )
        assert shown.startswith("Failed: not finished within activeDeadlineSeconds"), shown
    finally:
        plane.remove("dijob/fails")


def test_columns(plane: Plane, untouched: str) -> None:
    head, row = (line.split() for line in plane.kubectl("get", "dij", untouched).splitlines())
    names = ["NAME", "PHASE", "DESIRED", "READY", "RESTARTS", "AGE", "PROGRESS", "MESSAGE"]
    assert head == names
    assert row[:5] == [untouched, "Running", "2", "2", "0"]
    assert row[6:] == ["all", "2", "ranks", "are", "running"]
    wide = plane.kubectl("get", "dij", untouched, "-o", "wide")
    assert wide.splitlines()[0].split()[-2:] == ["TOPOLOGY", "WORKERS"]


def test_get_all_lists_it(plane: Plane, untouched: str) -> None:
    assert f"dijob.diengine.opendilab.org/{untouched}" in plane.kubectl("get", "all")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("spec.replicas", "kubectl scale"),
        ("spec.topology", "star (all to rank 0)"),
        ("spec.template.spec", "di-container"),
        ("status.succeededRanks", "0-3,7"),
    ],
)
def test_explain_describes_fields(plane: Plane, field: str, words: str) -> None:
    # The OpenAPI document has a new kind some seconds after the apiserver serves it.
    until_true("kubectl explains DIJobs", lambda: plane.ask("explain", "dijob").ok, 60)
    text = plane.kubectl("explain", f"dijob.{field}")
    assert words in " ".join(text.split())


@pytest.mark.parametrize("example", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_examples_are_accepted(plane: Plane, example: Path) -> None:
    flags = ("--dry-run=server", "--validate=strict", "--warnings-as-errors")
    # The namespace of metrics-adapter.yaml. A dry run does not create it.
    plane.ask("create", "namespace", "dijob-system")
    said = plane.ask("apply", *flags, "-f", str(example))
    assert said.ok, said.text
    assert "(server dry run)" in said.text
    has_job = "\nkind: DIJob\n" in example.read_text()
    assert ("dijob.diengine.opendilab.org" in said.text) == has_job


def test_the_bounds_can_change_while_the_job_runs(plane: Plane) -> None:
    try:
        plane.apply(job("grows"))
        plane.until_condition("grows", "Running", "True")
        before = plane.uids("grows")
        plane.apply(job("grows", minReplicas=1, maxReplicas=5))
        generation = (plane.get("dijob", "grows") or {})["metadata"]["generation"]
        plane.until(
            "the operator has seen it",
            lambda: (
                (plane.get("dijob", "grows") or {})["status"]["observedGeneration"] == generation
            ),
            lambda: plane.get("dijob", "grows"),
        )
        assert plane.uids("grows") == before
    finally:
        plane.remove("dijob/grows")
