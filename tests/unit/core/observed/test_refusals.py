"""The meaning of rejections by the API server, and when they are retried."""

import pytest
from dijob.core.observed.rejections import name_in_use, of_creation
from dijob.core.observed.views import ApiRejection, RejectionCause
from samples.builders import NOW


@pytest.mark.parametrize(
    ("status", "attempts", "why", "seconds"),
    [
        (400, 0, RejectionCause.REJECTED, 300),
        (422, 3, RejectionCause.REJECTED, 300),
        (403, 0, RejectionCause.FORBIDDEN, 1),
        (403, 3, RejectionCause.FORBIDDEN, 8),
        (403, 50, RejectionCause.FORBIDDEN, 25),
        (503, 50, RejectionCause.UNAVAILABLE, 60),
        (429, 0, RejectionCause.UNAVAILABLE, 1),
        (503, 2, RejectionCause.UNAVAILABLE, 4),
        (0, 0, RejectionCause.UNAVAILABLE, 1),
    ],
)
def test_a_rejection_is_retried_when_its_cause_may_be_gone(
    status: int, attempts: int, why: RejectionCause, seconds: float
) -> None:
    before = ApiRejection(why, "", NOW, attempts) if attempts else None
    rejection = of_creation(status, "in its own words", before, NOW)
    assert (rejection.why, rejection.message) == (why, "in its own words")
    assert (rejection.retry_at - NOW).total_seconds() == seconds
    assert rejection.attempts == attempts + 1


POLICY = (
    "pods \"a-0\" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'all' denied"
    " request: no"
)
WEBHOOK = 'admission webhook "check.example.com" denied the request: no'


@pytest.mark.parametrize(
    ("status", "message", "why"),
    [
        (422, POLICY, RejectionCause.FORBIDDEN),
        (400, WEBHOOK, RejectionCause.FORBIDDEN),
        (404, WEBHOOK, RejectionCause.FORBIDDEN),
        (
            422,
            'Pod "a-0" is invalid: spec.containers[0].image: Required value',
            RejectionCause.REJECTED,
        ),
        (500, WEBHOOK, RejectionCause.UNAVAILABLE),
    ],
)
def test_a_rejection_by_admission_is_not_final(
    status: int, message: str, why: RejectionCause
) -> None:
    """C45: a policy can change while the pod stays the same."""
    assert of_creation(status, message, None, NOW).why is why


def test_a_creation_rejected_by_admission_is_retried_within_30_s() -> None:
    """C45: this includes the maximum of jitter."""
    rejection = None
    for _ in range(20):
        rejection = of_creation(403, "no", rejection, NOW, spread=lambda seconds: seconds * 1.2)
        assert (rejection.retry_at - NOW).total_seconds() <= 30


def test_a_taken_name_has_a_remedy_and_an_ending_object_is_waited_for() -> None:
    taken = name_in_use(RejectionCause.TAKEN, "pod job-0", NOW)
    assert "pod job-0 already exists and belongs to somebody else" in taken.message
    assert (taken.retry_at - NOW).total_seconds() == 5
    for _ in range(9):
        taken = name_in_use(RejectionCause.TAKEN, "pod job-0", NOW, taken)
    assert (taken.retry_at - NOW).total_seconds() == 60
    ending = name_in_use(RejectionCause.TERMINATING, "pod job-0", NOW)
    assert (ending.why, (ending.retry_at - NOW).total_seconds()) == (RejectionCause.TERMINATING, 1)
