"""The GPU hours and the goodput of namespaces."""

from datetime import UTC, datetime
from typing import Any

import pytest
from dijob.client import Job
from dijob_extras.ui.totals import sum_by_namespace
from unit.extras.seen import condition, job

NOW = datetime(2026, 11, 25, 13, 58, tzinfo=UTC)
SINCE = "2026-11-25T11:58:00Z"


def timed(
    name: str,
    namespace: str = "ns",
    *,
    gpus: int = 2,
    activity: str = "Ended",
    progress: dict[str, Any] | None = None,
    **seconds: int,
) -> Job:
    """Return a job of three ranks with these seconds of each activity."""
    limits = {"limits": {"nvidia.com/gpu": gpus}}
    template = {
        "spec": {"containers": [{"name": "di-container", "image": "x", "resources": limits}]}
    }
    figures: dict[str, Any] = {"since": SINCE, "activity": activity, "activitySince": SINCE}
    figures |= {f"{kind}Seconds": value for kind, value in seconds.items()}
    more = {"progress": progress} if progress else {}
    made = job(name, spec={"template": template}, goodput=figures, **more)
    made.body["metadata"]["namespace"] = namespace
    return Job(made.body)


HOURS = {"jobs": 1, "active": 0, "uncounted": 0, "gpus": 0}
OVER = {"phase": "Failed", "conditions": [condition("Failed", "BackoffLimitExceeded")]}
INVALID = {"spec": {"template": {}, "replicas": -3}}
UNKNOWN = {**HOURS, "uncounted": 1, "gpuHours": 0.0, "productiveHours": 0.0, "goodput": None}


@pytest.mark.parametrize(
    ("jobs", "wanted"),
    [
        pytest.param([], {**HOURS, "jobs": 0, "gpuHours": 0.0, "productiveHours": 0.0,
                          "goodput": None}, id="no jobs"),
        pytest.param([timed("a", running=2700, starting=900)],
                     {**HOURS, "gpuHours": 6.0, "productiveHours": 4.5, "goodput": 0.75},
                     id="three ranks with two GPUs for an hour"),
        pytest.param([timed("a", running=1800, waiting=1800)],
                     {**HOURS, "gpuHours": 3.0, "productiveHours": 3.0, "goodput": 0.5},
                     id="a waiting job holds no GPUs, but its goodput falls"),
        pytest.param([timed("a", running=900, recovering=2700)],
                     {**HOURS, "gpuHours": 6.0, "productiveHours": 1.5, "goodput": 0.25},
                     id="a recovering job holds its GPUs"),
        pytest.param([timed("a", activity="Running")],
                     {**HOURS, "active": 1, "gpus": 6, "gpuHours": 12.0, "productiveHours": 12.0,
                      "goodput": 1.0},
                     id="the time since the last write counts"),
        pytest.param([timed("a", activity="Waiting")],
                     {**HOURS, "gpuHours": 0.0, "productiveHours": 0.0, "goodput": 0.0},
                     id="a waiting job is not active"),
        pytest.param([timed("a", gpus=0, running=3600)],
                     {**HOURS, "gpuHours": 0.0, "productiveHours": 0.0, "goodput": 1.0},
                     id="without GPUs there is a goodput"),
        pytest.param([timed("a", running=3600), timed("b", recovering=3600)],
                     {**HOURS, "jobs": 2, "gpuHours": 12.0, "productiveHours": 6.0,
                      "goodput": 0.5},
                     id="two jobs"),
        pytest.param([Job({**timed("a").body, **INVALID})], UNKNOWN, id="an invalid spec"),
        pytest.param([Job({**timed("a").body, "status": OVER})], UNKNOWN,
                     id="a job whose time was not counted"),
    ],
)  # fmt: skip
def test_the_total_of_jobs(jobs: list[Job], wanted: dict[str, Any]) -> None:
    assert sum_by_namespace(jobs, NOW)["total"] == wanted


def test_each_namespace_has_a_row_and_the_largest_is_first() -> None:
    jobs = [
        timed("a", "small", running=60),
        timed("a", "large", running=3600),
        timed("b", "small", gpus=0, running=60),
        timed("c", "none", gpus=0),
    ]
    found = sum_by_namespace(jobs, NOW)
    rows = [(row["namespace"], row["jobs"], row["gpuHours"]) for row in found["rows"]]
    assert rows == [("large", 1, 6.0), ("small", 2, 0.1), ("none", 1, 0.0)]
    assert (found["total"]["jobs"], found["total"]["gpuHours"]) == (4, 6.1)
    assert found["rows"][2]["goodput"] is None
