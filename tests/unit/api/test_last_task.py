"""The two fields that set the size of the last task (api/last_task.py): which of them counts."""

from typing import Any

import pytest
from dijob.api import job_names
from dijob.api.parse import Parsed, parse_job
from dijob.api.problems import SpecError
from samples.builders import Body, recorded, tasks_body

# One learner, one evaluator, and collectors: the size of the job is the size of the task plus 2.
OLD = "collector 2"


def body(collectors: int, record: str | None, desired: int = 0, **spec: Any) -> Body:
    """Return a job with this number in its last task."""
    made = tasks_body(1, 1, collectors, **spec)
    made["status"] = {"desired": desired} if desired else {}
    return made if record is None else recorded(made, record)


def in_part(given: Body) -> Body:
    """Return the job with a status after Kueue has admitted a part of it."""
    condition = {"type": "GangScheduled", "status": "True", "reason": "AdmittedInPart"}
    time = {"lastTransitionTime": "2026-05-04T12:00:00Z"}
    given["status"]["conditions"] = [{**condition, **time, "message": ""}]
    return given


CASES = [
    pytest.param(body(2, None), None, 2, id="a manifest with the task's field"),
    pytest.param(body(1, None, replicas=4), 4, 4, id="a manifest with both fields"),
    pytest.param(body(2, OLD, 4, replicas=2), 2, 2, id="as it was created"),
    pytest.param(body(2, OLD, 4, replicas=6), 6, 6, id="scaled up"),
    pytest.param(body(2, OLD, 8, replicas=1), 1, 1, id="scaled down"),
    pytest.param(body(5, OLD, 4, replicas=2), None, 5, id="the task was resized"),
    pytest.param(body(5, OLD, 4, replicas=6), None, 5, id="the task was resized, then scaled"),
    pytest.param(body(2, OLD, 8), None, 2, id="replicas were removed"),
    pytest.param(body(2, "evaluator 2", 8, replicas=6), None, 2, id="another task was the last"),
    pytest.param(body(2, "", 8, replicas=6), None, 2, id="an empty record"),
    pytest.param(body(2, None, 8, replicas=6), 6, 6, id="the record was removed"),
    pytest.param(in_part(body(2, None, 5, replicas=6)), 6, 6, id="removed, and admitted in part"),
    pytest.param(in_part(body(2, None, 4, replicas=4)), 4, 4, id="the same, and the sum is equal"),
    pytest.param(in_part(body(5, OLD, 5, replicas=6)), None, 5, id="admitted in part, resized"),
    pytest.param(body(2, None, 4, replicas=4), None, 2, id="the sum, from an older operator"),
    pytest.param(body(3, None, 4, replicas=4), None, 3, id="a resized task and the old sum"),
]


@pytest.mark.parametrize(("given", "confirmed", "size"), CASES)
def test_the_size_of_the_last_task(given: Body, confirmed: int | None, size: int) -> None:
    spec = parse_job(given).spec
    assert (spec.replicas, spec.scale, spec.desired) == (confirmed, size, size + 2)
    assert parse_job(given).pod_sets[-1].replicas == size


@pytest.mark.parametrize("before", [each.values[0] for each in CASES], ids=[e.id for e in CASES])
@pytest.mark.parametrize(("given", "confirmed", "size"), CASES)
def test_a_known_job_gives_the_same_size(
    before: Any, given: Body, confirmed: int | None, size: int
) -> None:
    """The parsed spec of an older version of the job is used again if the raw spec is equal."""
    first = Parsed.of(_version(before, "1"))
    assert first.job.pod_sets
    spec = Parsed.of(_version(given, "2"), first).job.spec
    assert (spec.replicas, spec.scale) == (confirmed, size)


def _version(given: Body, version: str) -> Body:
    return given | {"metadata": given["metadata"] | {"resourceVersion": version}}


def test_a_job_without_tasks_has_no_record() -> None:
    made = body(2, OLD, 4, replicas=2)
    made["spec"]["template"] = made["spec"].pop("tasks")[0]["template"]
    assert parse_job(made).spec.replicas == 2


def test_scaling_a_running_job_to_longer_pod_names_does_not_make_the_job_invalid() -> None:
    given = body(10, "collector 10", replicas=11)
    given["metadata"]["name"] = "j" * (job_names.LABEL_LENGTH - len("-collector-9"))
    with pytest.raises(SpecError, match="room for only 8"):
        parse_job(given)
    assert parse_job(given | {"status": {"desired": 12}}).spec.scale == 11
