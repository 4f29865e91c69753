"""Which progress of a job an autoscaler gets."""

from datetime import timedelta
from typing import Any

import pytest
from dijob.api.status import format_time
from dijob.controller.cache.jobs import Jobs
from dijob.controller.cache.stored_progress import RECENT_SECONDS, recent_figures
from dijob.controller.health import measure_progress, progress_document
from dijob.controller.metrics import JOB_PROGRESS, REGISTRY
from samples.builders import NOW, Body, job_body


def body(age: float = 5.0, phase: str = "Running", **values: Any) -> Body:
    changed = format_time(NOW - timedelta(seconds=age))
    progress = {"line": "iter 7", "iteration": 7, "waitingPercent": 30, "time": changed, **values}
    return job_body(status={"phase": phase, "progress": progress})


CASES: dict[str, tuple[Body, dict[str, float]]] = {
    "recent": (body(signal=0.5), {"iteration": 7, "waiting_percent": 30, "signal": 0.5}),
    "old": (body(age=RECENT_SECONDS + 1), {}),
    "from the future": (body(age=-RECENT_SECONDS - 1), {}),
    "not running": (body(phase="Suspended"), {}),
    "no time": (body(time=""), {}),
    "edited by a user": (body(waitingPercent="many"), {}),
    "no status": (job_body(), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_only_recent_progress_of_a_job_that_runs_counts(case: str) -> None:
    given, expected = CASES[case]
    assert recent_figures(given, NOW) == expected


def test_the_document_and_the_metric_have_the_same_values() -> None:
    jobs = Jobs()
    jobs.put(body(signal=2.5))
    assert progress_document(jobs, "ns", "job", NOW) == {
        "iteration": 7,
        "waitingPercent": 30,
        "signal": 2.5,
    }
    assert progress_document(jobs, "ns", "other", NOW) == {}
    measure_progress(jobs, NOW)
    labels = {"job_namespace": "ns", "job_name": "job", "what": "waiting_percent"}
    assert REGISTRY.get_sample_value("dijob_job_figure", labels) == 30
    JOB_PROGRESS.clear()
