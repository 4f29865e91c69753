"""A job that another controller manages, on a real API server. The test plays MultiKueue."""

import json
from collections.abc import Iterator

import pytest
from apiserver.plane import Plane, job, operator
from planes import control_plane
from workers import own

pytestmark = pytest.mark.apiserver

MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    log = tmp_path_factory.mktemp("operator") / "log"
    with control_plane(own("managed"), nodes=3) as cluster:
        made = Plane(cluster, log)
        with operator(cluster.kubeconfig, log):
            yield made


def copy_status(plane: Plane, status: dict[str, object]) -> None:
    """Replace the status of the job, as MultiKueue does with that of the job's copy."""
    path = ("dijob", "elsewhere", "--subresource=status", "--type=merge")
    plane.kubectl("patch", *path, "-p", json.dumps({"status": status}))


def test_a_job_of_another_controller_is_left_alone(plane: Plane) -> None:
    plane.apply(job("elsewhere", managedBy=MULTIKUEUE, ttlSecondsAfterFinished=0), job("here"))
    query = ("get", "events", "--field-selector", "involvedObject.name=elsewhere", "-o", "json")
    plane.until(
        "an event names the controller",
        lambda: MULTIKUEUE in plane.kubectl(*query),
        lambda: plane.kubectl(*query),
    )
    # The operator has seen both jobs, and has started only one of them.
    plane.until_condition("here", "Running", "True")
    found = plane.get("dijob", "elsewhere")
    assert found is not None
    # Only the defaults of the CRD: the operator has not seen the job.
    assert found["status"] == {"observedGeneration": -1, "readyReplicas": 0, "restarts": 0}
    assert plane.pods("elsewhere") == {}
    copy_status(plane, {"phase": "Running", "message": "both ranks are running"})
    copy_status(plane, {"phase": "Succeeded", "message": "both ranks exited 0"})
    # The suspension of the other job shows that the operator has processed later events, too.
    plane.kubectl("patch", "dijob", "here", "--type=merge", "-p", '{"spec":{"suspend":true}}')
    plane.until_condition("here", "Suspended", "True", "Suspended")
    found = plane.get("dijob", "elsewhere")
    assert found is not None
    assert found["status"]["message"] == "both ranks exited 0"
    assert "conditions" not in found["status"]
    assert len(json.loads(plane.kubectl(*query))["items"]) == 1
    edit = json.dumps({"spec": {"managedBy": None}})
    said = plane.ask("patch", "dijob", "elsewhere", "--type=merge", "-p", edit)
    assert "the job has ended" in str(said)


@pytest.mark.parametrize(
    "value", [pytest.param(None, id="removed"), pytest.param("example.com/other", id="changed")]
)
def test_the_manager_of_a_suspended_job_cannot_be_changed(plane: Plane, value: str | None) -> None:
    plane.apply(job("fixed", managedBy=MULTIKUEUE, suspend=True))
    edit = json.dumps({"spec": {"managedBy": value}})
    said = plane.ask("patch", "dijob", "fixed", "--type=merge", "-p", edit)
    assert "managedBy cannot be changed, even while the job is suspended" in str(said)
    plane.remove("dijob/fixed")
