"""Advice for rejected pods whose API errors name containers of the operator (C32, C49)."""

import pytest
from dijob.core.decide.context import build_context
from dijob.core.observed import diagnose, remedies
from dijob.core.observed.views import ApiRejection, Observed, RejectionCause
from dijob.core.report import shared_objects
from dijob.reasons import BrokerReady
from samples.builders import NOW, gang, job

SECURITY = (
    'pods "job-0" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true (pod'
    ' or containers "dijob-launcher", "dijob-gate", "di-container" must set'
    " securityContext.runAsNonRoot=true)"
)
QUOTA = (
    'pods "job-0" is forbidden: failed quota: q: must specify limits.cpu for:'
    " di-container,dijob-gate,dijob-launcher"
)
REDIS = 'pods "job-mq" is forbidden: failed quota: q: must specify limits.cpu for: redis'
RANGE = 'pods "job-mq" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi'
WITH_REDIS = job(messageQueue={"type": "redis"})


def forbidden(message: str) -> ApiRejection:
    return ApiRejection(RejectionCause.FORBIDDEN, message, NOW)


@pytest.mark.parametrize("message", [SECURITY, QUOTA], ids=["C49", "quota"])
def test_an_error_about_a_container_of_the_operator_names_the_main_container(message: str) -> None:
    seen = Observed(rejections={"pod/job-0": forbidden(message)})
    found = diagnose.describe_rejections(gang(1), [0], seen)
    assert found is not None
    assert found[1] == f"rank 0: {remedies.FOLLOW}: {message}"
    assert diagnose.without_address(gang(1), [0], seen, NOW) == found[1]


@pytest.mark.parametrize(
    "why", [RejectionCause.TERMINATING, RejectionCause.TAKEN, RejectionCause.UNAVAILABLE]
)
def test_only_an_error_about_the_content_of_a_pod_gets_advice(why: RejectionCause) -> None:
    """The old pod of a deleted job: the message lists its containers, including those of the
    operator.
    """
    message = "waits for the old pod job-0: its containers dijob-launcher, di-container still run"
    seen = Observed(rejections={"pod/job-0": ApiRejection(why, message, NOW)})
    found = diagnose.describe_rejections(gang(1), [0], seen)
    assert found is not None
    assert found[1] == f"rank 0: {message}"
    assert diagnose.without_address(gang(1), [0], seen, NOW) == found[1]


def test_other_errors_are_reported_as_they_are() -> None:
    message = 'pods "job-0" is forbidden: exceeded quota: q, requested: pods=1'
    seen = Observed(rejections={"pod/job-0": forbidden(message)})
    found = diagnose.describe_rejections(gang(1), [0], seen)
    assert found is not None
    assert found[1] == f"rank 0: {message}"


@pytest.mark.parametrize("message", [REDIS, RANGE], ids=["a quota", "a limit range"])
def test_the_resources_of_the_jobs_redis_are_a_value_of_the_chart(message: str) -> None:
    """C32."""
    seen = Observed(rejections={"pod/job-mq": forbidden(message)})
    fact = shared_objects.server_fact(build_context(WITH_REDIS, seen, NOW))
    assert fact.reason is BrokerReady.Refused
    assert fact.message == f"{remedies.REDIS}: {message}"


def test_another_error_about_the_jobs_redis_is_reported_as_it_is() -> None:
    message = 'pods "job-mq" is forbidden: no such priority class'
    seen = Observed(rejections={"pod/job-mq": forbidden(message)})
    fact = shared_objects.server_fact(build_context(WITH_REDIS, seen, NOW))
    assert fact.message == message
