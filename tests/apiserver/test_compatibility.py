"""DI-orchestrator's own manifests on a real apiserver. One of them runs until it is Running."""

import json

import pytest
from apiserver.plane import Plane
from apiserver.theirs import ACCEPTED, GOBIGGER, MANIFESTS, NORMAL, REFUSED, Body, body
from chart.lab import Said

pytestmark = pytest.mark.apiserver


def dry(plane: Plane, *more: str, stdin: str = "") -> Said:
    return plane.ask("create", "--dry-run=server", "--validate=strict", *more, stdin=stdin)


@pytest.mark.parametrize("file", ACCEPTED)
def test_accepted(plane: Plane, file: str) -> None:
    said = dry(plane, "-f", str(MANIFESTS / file))
    assert said.ok, said.text
    assert "dijob.diengine.opendilab.org/" in said.text


@pytest.mark.parametrize("file", REFUSED)
def test_rejected_for_the_reason_in_its_name(plane: Plane, file: str) -> None:
    said = dry(plane, "-f", str(MANIFESTS / file))
    assert not said.ok, said.text
    assert REFUSED[file][1] in said.text


def changed(**spec: object) -> str:
    made = body(GOBIGGER)
    made["spec"] |= spec
    made["metadata"] = {"name": "changed"}
    return json.dumps(made)


def test_no_min_replicas_of_0(plane: Plane) -> None:
    said = dry(plane, "-f", "-", stdin=changed(minReplicas=0))
    assert not said.ok
    assert "spec.minReplicas" in said.text
    assert "greater than or equal to 1" in said.text


def test_a_backoff_limit_of_null_is_the_default(plane: Plane) -> None:
    said = dry(
        plane, "-o", "jsonpath={.spec.backoffLimit}", "-f", "-", stdin=changed(backoffLimit=None)
    )
    assert (said.ok, said.text) == (True, "3")


def test_a_job_of_di_orchestrator_runs_and_has_its_labels(plane: Plane) -> None:
    try:
        plane.kubectl("apply", "-f", str(MANIFESTS / NORMAL))
        plane.until_condition("normal-job", "Running", "True", seconds=60)
        pods: dict[str, Body] = plane.pods("normal-job")
        tasks = {"learner": (0, 1), "evaluator": (1, 1), "collector": (2, 2)}
        expected = {
            f"normal-job-{task}-{index}": (task, str(index), str(first + index))
            for task, (first, size) in tasks.items()
            for index in range(size)
        }
        assert {name: _identity(pod) for name, pod in pods.items()} == expected
        selector = "diengine/job=normal-job,diengine/task-type=collector"
        found = plane.kubectl("get", "pods", "-l", selector, "-o", "name").split()
        assert sorted(found) == ["pod/normal-job-collector-0", "pod/normal-job-collector-1"]
        for name, pod in pods.items():
            labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
            assert (labels["diengine/operator"], labels["diengine/group"]) == (
                "di-operator",
                "diengine",
            )
            assert (labels["diengine/pod"], labels["diengine/rank"]) == (
                name,
                notes["diengine/rank"],
            )
            assert notes["diengine/replicas"] == "4"
        each = {task: {"Running": size} for task, (_, size) in tasks.items()}
        plane.until(
            "the tasks are counted", lambda: _counted(plane) == each, lambda: _counted(plane)
        )
    finally:
        plane.remove("dijob/normal-job")


def _identity(pod: Body) -> tuple[str, str, str]:
    labels, notes = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert labels["diengine/task-type"] == labels["diengine/task-name"]
    return labels["diengine/task-name"], notes["diengine/task-rank"], notes["diengine/rank"]


def _counted(plane: Plane) -> Body:
    found: Body = (plane.get("dijob", "normal-job") or {}).get("status", {}).get("taskStatus", {})
    return found
