"""What a refusal of the apiserver means, and when to ask again."""

import pytest
from dijob.core.observed.refusals import name_in_use, of_creation
from dijob.core.observed.views import Refusal, Refused
from unit.builders import NOW


@pytest.mark.parametrize(
    ("status", "attempts", "why", "seconds"),
    [
        (400, 0, Refused.REJECTED, 300),
        (422, 3, Refused.REJECTED, 300),
        (403, 0, Refused.FORBIDDEN, 1),
        (403, 3, Refused.FORBIDDEN, 8),
        (403, 50, Refused.FORBIDDEN, 60),
        (429, 0, Refused.UNAVAILABLE, 1),
        (503, 2, Refused.UNAVAILABLE, 4),
        (0, 0, Refused.UNAVAILABLE, 1),
    ],
)
def test_a_refusal_is_asked_again_when_it_can_have_healed(
    status: int, attempts: int, why: Refused, seconds: float
) -> None:
    before = Refusal(why, "", NOW, attempts) if attempts else None
    refusal = of_creation(status, "in its own words", before, NOW)
    assert (refusal.why, refusal.message) == (why, "in its own words")
    assert (refusal.retry_at - NOW).total_seconds() == seconds
    assert refusal.attempts == attempts + 1


def test_a_name_that_is_taken_says_what_to_do_and_one_that_ends_is_waited_for() -> None:
    taken = name_in_use(Refused.TAKEN, "pod job-0", NOW)
    assert "pod job-0 exists and belongs to somebody else" in taken.message
    assert (taken.retry_at - NOW).total_seconds() == 5
    for _ in range(9):
        taken = name_in_use(Refused.TAKEN, "pod job-0", NOW, taken)
    assert (taken.retry_at - NOW).total_seconds() == 60
    ending = name_in_use(Refused.TERMINATING, "pod job-0", NOW)
    assert (ending.why, (ending.retry_at - NOW).total_seconds()) == (Refused.TERMINATING, 1)
