"""A quota with room for some pods of an elastic job: these start, and the others join later."""

import pytest
from apiserver.plane import Body, Plane, changed, job

pytestmark = pytest.mark.apiserver

NAME = "bounded"
# The quota counts only this job's pods.
CLASS: Body = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": NAME},
    "value": 1,
}


def quota(pods: int) -> Body:
    only = {"scopeName": "PriorityClass", "operator": "In", "values": [NAME]}
    spec = {"hard": {"pods": str(pods)}, "scopeSelector": {"matchExpressions": [only]}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": NAME}, "spec": spec}


def in_force(plane: Plane, pods: int) -> bool:
    found = plane.get("resourcequota", NAME) or {}
    return bool(found.get("status", {}).get("hard", {}).get("pods") == str(pods))


def test_an_elastic_job_starts_without_ranks_that_a_quota_rejects(
    plane: Plane, untouched: str
) -> None:
    made = job(NAME, minReplicas=1, maxReplicas=4, replicas=4, gatherSeconds=2)
    try:
        plane.apply(CLASS, quota(1))
        plane.until(
            "the quota is counted",
            lambda: in_force(plane, 1),
            lambda: plane.get("resourcequota", NAME),
        )
        plane.apply(changed(made, "spec.template.spec.priorityClassName", NAME))
        plane.until_condition(NAME, "Running", "True", "1 of 4 ranks is running")
        plane.until_condition(NAME, "PodsCreated", "False", "PodForbidden", "exceeded quota")
        first = plane.uids(NAME)[f"{NAME}-0"]
        plane.apply(quota(4))
        plane.until_condition(NAME, "Running", "True", "all 4 ranks are running", seconds=90)
        assert plane.uids(NAME)[f"{NAME}-0"] == first
    finally:
        plane.remove(f"dijob/{NAME}", f"resourcequota/{NAME}", f"priorityclass/{NAME}")
