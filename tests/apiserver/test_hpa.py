"""A HorizontalPodAutoscaler scales a job by an external metric."""

import json
from collections.abc import Iterator

import pytest
from apiserver.metrics import METRIC, Metric, served
from apiserver.plane import NAMESPACE, Body, Plane, job
from apiserver.rows_tasks import tasks_job
from cluster.build import OLDEST, chosen
from pages import commands, section
from space import JOB_LABEL

pytestmark = pytest.mark.apiserver

# The controller's sync period is 5 s in the test cluster.
SECONDS = 90


@pytest.fixture
def metric(plane: Plane) -> Iterator[Metric]:
    with served() as metric:
        plane.apply(*metric.objects())
        name = metric.objects()[1]["metadata"]["name"]
        plane.kubectl("wait", "--for=condition=Available", f"apiservice/{name}", "--timeout=100s")
        try:
            yield metric
        finally:
            # An API that does not respond would block the deletion of every namespace.
            plane.kubectl("delete", f"apiservice/{name}", "service/external-metrics")


def autoscaler(name: str) -> Body:
    """Return an autoscaler: one rank per ten waiting episodes, 1 to 4, without delay."""
    target = {"type": "AverageValue", "averageValue": "10"}
    at_once = {"stabilizationWindowSeconds": 0}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "diengine.opendilab.org/v2alpha1",
                "kind": "DIJob",
                "name": name,
            },
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [
                {"type": "External", "external": {"metric": {"name": METRIC}, "target": target}}
            ],
            "behavior": {"scaleUp": at_once, "scaleDown": at_once},
        },
    }


def test_an_autoscaler_scales_a_job_up_and_down(
    plane: Plane, untouched: str, metric: Metric
) -> None:
    metric.value = 20
    try:
        made = job("auto", minReplicas=1, maxReplicas=4, replicas=2, gatherSeconds=60)
        plane.apply(made, autoscaler("auto"))
        plane.until_condition("auto", "Running", "True")
        before = plane.uids("auto")
        assert sorted(before) == ["auto-0", "auto-1"]
        metric.value = 40
        until_ranks(plane, 4)
        metric.value = 15
        until_ranks(plane, 2)
        after = plane.uids("auto")
        assert after == before
        plane.until(
            "both have the third list",
            lambda: _status(plane)["listNumber"] == 3,
            lambda: _status(plane),
        )
        assert _status(plane).get("renewals", 0) == 0
        assert metric.asked >= 2
    finally:
        plane.remove("hpa/auto", "dijob/auto")


def _status(plane: Plane) -> Body:
    found: Body = (plane.get("dijob", "auto") or {})["status"]
    return found


def until_ranks(plane: Plane, count: int) -> None:
    """Wait until the job runs with `count` ranks, all of them Ready."""

    def true() -> bool:
        status = (plane.get("dijob", "auto") or {})["status"]
        sizes = (status.get("replicas"), status.get("readyReplicas"), len(plane.pods("auto")))
        return sizes == (count, count, count)

    plane.until(
        f"auto has {count} ranks",
        true,
        lambda: plane.kubectl("describe", "hpa/auto", "dijob/auto"),
        SECONDS,
    )


def test_the_pages_commands_create_a_working_autoscaler(
    plane: Plane,
) -> None:
    typed = "\n".join(commands(section("docs/elastic.md", "Autoscalers")))
    assert "kubectl autoscale dijob train" in typed
    if chosen() is OLDEST:
        typed = typed.replace("--cpu=80%", "--cpu-percent=80")
    try:
        plane.apply(job("train", minReplicas=1, maxReplicas=4, replicas=2))
        plane.until_condition("train", "Running", "True")
        said = plane.lab.run("bash", "-euc", typed)
        assert said.ok, said.text
        assert "DIJob/train" in said.text
        path = f"/apis/diengine.opendilab.org/v2alpha1/namespaces/{NAMESPACE}/dijobs/train/scale"
        scale = json.loads(plane.kubectl("get", "--raw", path))
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
        selector = scale["status"]["selector"]
        assert JOB_LABEL in selector
        found = plane.kubectl("get", "pods", "-l", selector, "-o", "name").split()
        assert found == ["pod/train-0", "pod/train-1"]

        def read() -> bool:
            """Return whether the controller could read the job's scale."""
            status = (plane.get("hpa", "train") or {}).get("status", {})
            conditions = {each["type"]: each for each in status.get("conditions", ())}
            able = conditions.get("AbleToScale", {})
            known: tuple[str, int] = able.get("reason", ""), status.get("currentReplicas", 0)
            return known == ("SucceededGetScale", 2)

        plane.until("the scale is read", read, lambda: plane.get("hpa", "train"), SECONDS)
    finally:
        plane.remove("hpa/train", "dijob/train")


def test_an_autoscaler_scales_the_last_task(plane: Plane) -> None:
    target = {"apiVersion": "diengine.opendilab.org/v2alpha1", "kind": "DIJob", "name": "roles"}
    # The minimum is larger than the task, so the controller needs no metric to decide.
    wanted: Body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "roles"},
        "spec": {"scaleTargetRef": target, "minReplicas": 4, "maxReplicas": 6},
    }
    made = tasks_job("roles", gatherSeconds=0)

    def condition() -> Body:
        status = (plane.get("hpa", "roles") or {}).get("status", {})
        found = (one for one in status.get("conditions", ()) if one["type"] == "AbleToScale")
        return next(found, {})

    def collectors() -> int:
        return sum("collector" in pod for pod in plane.pods("roles"))

    try:
        plane.apply(made, wanted)
        plane.until_condition("roles", "Running", "True")
        before = plane.uids("roles")
        plane.until("it scales", lambda: collectors() == 4, condition, SECONDS)
        # The autoscaler writes its own status after it has scaled the job.
        plane.until("it says so", lambda: condition().get("status") == "True", condition, SECONDS)
        # The user applies the manifest, which has 2 collectors, while the autoscaler acts.
        plane.apply(made)
        body = plane.get("dijob", "roles") or {}
        assert (body["spec"]["replicas"], body["spec"]["tasks"][-1]["replicas"]) == (4, 2)
        assert plane.uids("roles").items() >= before.items()
    finally:
        plane.remove("hpa/roles", "dijob/roles")
