"""What a waiting job reports about the quota of its queue."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.observed.queue_views import LocalQueue, QueueView, Quota
from dijob.core.report.queue_quota import describe_position, parse_quota
from samples.builders import container, job_body


def job_with(**requests: Any) -> DIJob:
    main = container(resources={"requests": requests, "limits": requests})
    return parse_job(job_body({"containers": [main]}, replicas=3))


def quota(pending: int = 1, **resources: tuple[int, int]) -> Quota:
    """Return a quota; a resource is (free, total)."""
    names = {name.replace("gpu", "nvidia.com/gpu"): pair for name, pair in resources.items()}
    free = {name: Decimal(pair[0]) for name, pair in names.items()}
    return Quota(pending, {name: Decimal(pair[1]) for name, pair in names.items()}, free)


GPU = {"nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("job", "seen", "expected"),
    [
        (job_with(cpu="1"), QueueView(), ""),
        (job_with(cpu="1"), QueueView(local=LocalQueue(1)), ""),
        (job_with(cpu="1"), QueueView(local=LocalQueue(3)), "behind at most 2 workloads"),
        (
            job_with(**GPU),
            QueueView(local=LocalQueue(2), quota=quota(4, gpu=(2, 6))),
            "2 of 6 nvidia.com/gpu free, behind at most 3 workloads",
        ),
        (job_with(**GPU), QueueView(quota=quota(gpu=(3, 6))), ""),
        (
            job_with(cpu="2", **GPU),
            QueueView(quota=quota(cpu=(5, 8), gpu=(0, 6))),
            "0 of 6 nvidia.com/gpu, 5 of 8 cpu free",
        ),
        (
            job_with(cpu="2"),
            QueueView(quota=replace(quota(cpu=(3, 3)), cohort="all")),
            "3 of 3 cpu free (other queues of cohort all may have borrowed it)",
        ),
        (
            job_with(cpu="2"),
            QueueView(quota=replace(quota(cpu=(0, 3)), cohort="all")),
            "0 of 3 cpu free",
        ),
        (job_with(memory="1Gi"), QueueView(quota=quota(cpu=(0, 1))), ""),
        (job_with(cpu="1"), QueueView(held_back=2, quota=quota(cpu=(2, 3))), ""),
        (job_with(cpu="1"), QueueView(held_back=2, quota=quota(cpu=(1, 3))), "1 of 3 cpu free"),
    ],
    ids=[
        "nothing is known",
        "no other workload",
        "only the LocalQueue is known",
        "GPUs",
        "there is enough quota, so the job waits for something else",
        "the GPU comes first",
        "other queues may have borrowed the quota",
        "there is nothing to borrow",
        "the queue does not cover the resource",
        "a job that grows needs only the quota of its new ranks",
        "a job that grows waits for quota",
    ],
)
def test_the_position_tells_the_free_quota_and_how_many_wait(
    job: DIJob, seen: QueueView, expected: str
) -> None:
    assert describe_position(job, seen) == expected


def queue_body(used: str) -> dict[str, Any]:
    """Return a ClusterQueue with two flavors. `used` is what is reserved of the second one."""
    flavors = [
        {"name": name, "resources": [{"name": "cpu", "nominalQuota": amount}]}
        for name, amount in (("a", "2"), ("b", "4"))
    ]
    reserved = [
        {"name": "a", "resources": [{"name": "cpu", "total": "500m"}]},
        {"name": "b", "resources": [{"name": "cpu", "total": used}, {"name": "x", "total": "9"}]},
    ]
    return {
        "spec": {
            "cohortName": "all",
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        },
        "status": {"flavorsReservation": reserved, "pendingWorkloads": 2},
    }


def test_the_quota_is_that_of_all_flavors_and_borrowed_quota_is_not_free() -> None:
    body = queue_body("3")
    found = parse_quota(body)
    assert (found.pending, found.total) == (2, {"cpu": Decimal(6)})
    assert found.cohort == "all"
    assert found.free == {"cpu": Decimal("2.5")}
    assert parse_quota(queue_body("7")).free == {"cpu": Decimal(0)}
    assert parse_quota({}) == Quota()
