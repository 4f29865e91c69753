"""H33: which pods are ranks of a job. A label does not prove it, because a tenant can set it."""

from typing import Any

import pytest
from dijob import names
from dijob.client import Job
from dijob.client.ranks import ranks_of
from manifests import dijob

Body = dict[str, Any]


def job(**spec: Any) -> Job:
    body = dijob("test", {"image": "x", "command": ["a"]}, **(spec or {"replicas": 2}))
    body["metadata"] |= {"namespace": "ns", "uid": "now"}
    if "tasks" in spec:
        del body["spec"]["template"]
    return Job(body)


def pod(name: str, rank: object, **owner: Any) -> Body:
    known = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": "test", "uid": "now"}
    labels = {names.LABEL_JOB: "test", names.LABEL_RANK: str(rank)}
    meta = {
        "name": name,
        "namespace": "ns",
        "labels": labels,
        "ownerReferences": [known | {"controller": True} | owner],
    }
    return {"metadata": meta}


def found(of: Job, *bodies: Body) -> list[tuple[int, str]]:
    return [(one.rank, one.name) for one in ranks_of(of, bodies)]


def test_the_rank_comes_from_the_name_and_not_from_the_label() -> None:
    assert found(job(), pod("test-1", 0), pod("test-0", "x")) == [(0, "test-0"), (1, "test-1")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("mine", 0), id="another name"),
        pytest.param(pod("test-00", "00"), id="a number with a leading zero"),
        pytest.param(pod("test-x-0", 0), id="a task that the job does not have"),
        pytest.param(pod("test-" + "9" * 61, "9" * 61), id="too large"),
        pytest.param(pod("test-0", 0, uid="before"), id="of an earlier job with the name"),
        pytest.param(pod("test-0", 0, controller=False), id="owned, but not controlled"),
        pytest.param(pod("test-0", 0, kind="Job", apiVersion="batch/v1"), id="of another kind"),
        pytest.param({"metadata": {"name": "test-0", "namespace": "ns"}}, id="without an owner"),
    ],
)
def test_pods_that_are_not_ranks(other: Body) -> None:
    assert found(job(), other, pod("test-1", 1)) == [(1, "test-1")]


TASKS = [
    {"type": "learner", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}},
    {"type": "collector", "replicas": 2, "template": {"spec": {"containers": [{"name": "c"}]}}},
]


def test_ranks_of_a_job_with_tasks() -> None:
    given = [pod("test-collector-1", 0), pod("test-learner-0", 0), pod("test-learner-1", 0)]
    tasks = job(tasks=TASKS)
    assert found(tasks, *given) == [(0, "test-learner-0"), (2, "test-collector-1")]


def test_ranks_of_a_job_with_an_invalid_spec() -> None:
    assert found(job(replicas=-1), pod("test-1", 1), pod("mine", 0)) == [(1, "test-1")]
