"""The scale of a job with tasks is the size of its last task (docs/learners.md): `kubectl scale`,
client-side and server-side apply of the same manifest, and the bounds of the task.
"""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from apiserver.plane import NAMESPACE, Body, Plane
from apiserver.pool import clear
from apiserver.rows_tasks import tasks_job
from chart.lab import Said
from space import JOB_LABEL

pytestmark = pytest.mark.apiserver

LEARNER = "roles-learner-0"


@pytest.fixture
def name(plane: Plane) -> Iterator[str]:
    """Yield the name of a job, and delete it with its pods."""
    yield "roles"
    clear(plane, "roles")


def roles(collectors: int, **spec: Any) -> Body:
    """Return the user's manifest: one learner, and one to five collectors."""
    elastic = {"type": "collector", "replicas": collectors, "minReplicas": 1, "maxReplicas": 5}
    return tasks_job("roles", {"type": "learner"}, elastic, gatherSeconds=0, **spec)


def scale_of(plane: Plane) -> Body:
    path = f"/apis/diengine.opendilab.org/v2alpha1/namespaces/{NAMESPACE}/dijobs/roles/scale"
    found: Body = json.loads(plane.kubectl("get", "--raw", path))
    return found


def until_collectors(plane: Plane, count: int) -> None:
    """Wait until the job runs with this number of collectors, and its scale says so."""

    def true() -> bool:
        scale = scale_of(plane)
        status, job = scale["status"], (plane.get("dijob", "roles") or {})["status"]
        selected = plane.kubectl("get", "pods", "-l", status["selector"], "-o", "name").split()
        sizes = (scale["spec"]["replicas"], status["replicas"], len(selected))
        return sizes == (count,) * 3 and job.get("readyReplicas") == count + 1

    plane.until(
        f"{count} collectors",
        true,
        lambda: (scale_of(plane), plane.get("dijob", "roles"), sorted(plane.pods("roles"))),
    )


def server_side(plane: Plane, body: Body) -> Said:
    """Apply a manifest as Flux does."""
    how = ("--server-side", "--field-manager=flux")
    return plane.ask("apply", *how, "-f", "-", stdin=yaml.safe_dump(body))


@pytest.mark.parametrize("how", ["client-side", "server-side"])
def test_a_manifest_that_is_applied_again_does_not_undo_a_scale(
    plane: Plane, name: str, how: str
) -> None:
    def apply(body: Body) -> None:
        if how == "client-side":
            plane.apply(body)
        else:
            said = server_side(plane, body)
            assert said.ok, said.text

    apply(roles(2))
    plane.until_condition(name, "Running", "True")
    until_collectors(plane, 2)
    learner = plane.uids(name)[LEARNER]
    assert plane.ask("scale", "dijob", name, "--replicas=4").ok
    until_collectors(plane, 4)
    apply(roles(2))
    assert scale_of(plane)["spec"]["replicas"] == 4
    apply(roles(3))
    until_collectors(plane, 3)
    assert plane.ask("scale", "dijob", name, "--replicas=1").ok
    until_collectors(plane, 1)
    body = plane.get("dijob", name) or {}
    assert body["spec"]["tasks"][-1]["replicas"] == 3
    assert (plane.uids(name)[LEARNER], body["status"].get("renewals", 0)) == (learner, 0)


def test_the_bounds_of_the_last_task_apply_to_its_scale(plane: Plane, name: str) -> None:
    plane.apply(roles(2, replicas=5))
    plane.until_condition(name, "Running", "True")
    until_collectors(plane, 5)
    refused = plane.ask("scale", "dijob", name, "--replicas=6")
    assert not refused.ok
    assert "between that task's minReplicas and maxReplicas" in refused.text
    smaller = [{"op": "replace", "path": "/spec/tasks/1/maxReplicas", "value": 3}]
    plane.kubectl("patch", "dijob", name, "--type=json", "-p", json.dumps(smaller))
    until_collectors(plane, 3)


def test_a_copy_of_a_scaled_job_has_its_size(plane: Plane, name: str) -> None:
    """As a restored backup: the annotation and the spec, but no status."""
    plane.apply(roles(2))
    plane.until_condition(name, "Running", "True")
    assert plane.ask("scale", "dijob", name, "--replicas=3").ok
    until_collectors(plane, 3)
    body = plane.get("dijob", name) or {}
    kept = {key: body["metadata"][key] for key in ("name", "annotations")}
    clear(plane, name)
    plane.until_no_pods(name)
    plane.apply({**body, "metadata": kept, "status": {}})
    plane.until_condition(name, "Running", "True")
    until_collectors(plane, 3)
    assert f"{JOB_LABEL}={name},diengine/task-name=collector" in scale_of(plane)["status"].values()
