"""H24: variables of the operator that a template sets itself and that may conflict with the job."""

from typing import Any

import pytest
from dijob.api.parse import parse_job
from dijob.api.warnings import job_warnings
from samples.builders import container, job_body
from samples.specs import rejection

Body = dict[str, Any]

ENV = "spec.template.spec.containers[0].env[0]"
REDIS = {"messageQueue": {"type": "redis"}}
BEGUN = {"startTime": "2026-05-04T12:00:00Z"}


def having(name: str, value: str | None, status: Body | None = None, **spec: Any) -> Body:
    unread = {"valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
    entry = {"name": name, **(unread if value is None else {"value": value})}
    return job_body({"containers": [container(env=[entry])]}, status, **spec)


CONTRADICTIONS = [
    ("DI_TOPOLOGY", "mesh", {"topology": "star"}, "'star'", "spec.topology"),
    ("DI_TOPOLOGY", "star", {}, "'mesh'", "spec.topology"),
    ("DI_PARALLEL_WORKERS", "3", {"parallelWorkers": 2}, "'2'", "spec.parallelWorkers"),
    ("DI_PARALLEL_WORKERS", "3", {}, "'1'", "spec.parallelWorkers"),
    ("DI_MQ_TYPE", "redis", {}, "'nng'", "spec.messageQueue.type"),
    ("DI_MQ_TYPE", "nng", REDIS, "'redis'", "spec.messageQueue.type"),
    ("DI_REDIS_HOST", "other", REDIS, "'job-mq'", "spec.messageQueue.host"),
    ("DI_REDIS_PORT", "6380", REDIS, "'6379'", "spec.messageQueue.port"),
]


@pytest.mark.parametrize(("name", "value", "spec", "expected", "field"), CONTRADICTIONS)
def test_a_value_that_contradicts_the_job_is_rejected(
    name: str, value: str, spec: Body, expected: str, field: str
) -> None:
    ((path, message),) = rejection(having(name, value, **spec))
    assert path == ENV
    assert message == (
        f"{name} is {value!r}, but the job has {expected}: remove the variable, and set {field} if"
        f" you want {value!r}"
    )


@pytest.mark.parametrize(("name", "value", "spec", "expected", "field"), CONTRADICTIONS)
def test_a_job_started_by_an_older_operator_keeps_running(
    name: str, value: str, spec: Body, expected: str, field: str
) -> None:
    (found,) = job_warnings(parse_job(having(name, value, BEGUN, **spec)))
    assert (found.field, field in found.message) == (ENV, True)


@pytest.mark.parametrize(
    ("name", "value", "spec"),
    [
        ("DI_TOPOLOGY", "star", {"topology": "star"}),
        ("DI_TOPOLOGY", "mesh", {}),
        ("DI_PARALLEL_WORKERS", "2", {"parallelWorkers": 2}),
        ("DI_MQ_TYPE", "redis", REDIS),
        ("DI_REDIS_HOST", "job-mq", REDIS),
        ("DI_REDIS_HOST", "a-server-of-mine", {}),
        ("DI_JOB_NAME", "job", {}),
        ("DI_JOB_NAMESPACE", "ns", {}),
        ("DI_LABELS", "learner", {}),
        ("DI_MINE", "x", {}),
    ],
)
def test_an_equal_value_is_accepted(name: str, value: str, spec: Body) -> None:
    assert job_warnings(parse_job(having(name, value, **spec))) == ()


@pytest.mark.parametrize("name", ["DI_TOPOLOGY", "DI_PARALLEL_WORKERS", "DI_MQ_TYPE"])
@pytest.mark.parametrize("value", [None, "$(MINE)"])
def test_an_unreadable_value_causes_a_warning(name: str, value: str | None) -> None:
    (found,) = job_warnings(parse_job(having(name, value)))
    assert (found.field, "the operator cannot read" in found.message) == (ENV, True)


@pytest.mark.parametrize("value", ["mine", None])
@pytest.mark.parametrize("name", ["DI_JOB_ID", "DI_JOB_NAME", "DI_JOB_NAMESPACE"])
def test_a_harmless_value_causes_a_warning(name: str, value: str | None) -> None:
    (found,) = job_warnings(parse_job(having(name, value)))
    assert (found.field, "overrides the value" in found.message) == (ENV, True)


@pytest.mark.parametrize("name", ["DI_LEARNER_NODES", "DI_LABELS"])
def test_variables_derived_from_tasks_are_checked_too(name: str) -> None:
    main = container(env=[{"name": name, "value": "x"}])
    tasks = [{"type": "learner", "template": {"spec": {"containers": [main]}}}]
    (found,) = job_warnings(parse_job(job_body(tasks=tasks, template=None, replicas=None)))
    assert found.field == "spec.tasks[0].template.spec.containers[0].env[0]"


def test_another_container_has_none_of_the_operators_variables() -> None:
    side = {"name": "side", "image": "x", "env": [{"name": "DI_TOPOLOGY", "value": "star"}]}
    assert job_warnings(parse_job(job_body({"containers": [container(), side]}))) == ()
