"""The condition about a Service that cannot be created, and when it is cleared."""

import pytest
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.names import ServicePolicy
from samples.builders import (
    ALL,
    NOW,
    conditions_of,
    job,
    later,
    observed,
    plan,
    running,
    say,
    stored,
    view,
)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        (RejectionCause.TAKEN, "ServiceNameTaken"),
        (RejectionCause.FORBIDDEN, "ServiceRefused"),
        (RejectionCause.REJECTED, "ServiceRefused"),
    ],
)
def test_a_service_that_cannot_be_created_is_reported_until_it_exists(
    why: RejectionCause, reason: str
) -> None:
    owner = running()
    no = {"service/job": ApiRejection(why, "no, because", later(60))}
    seen = observed(*ALL, services=(), rejections=no)
    decided = plan(owner, seen, later(1))
    said = conditions_of(decided)
    assert decided.actions == ()
    words = "" if why is RejectionCause.TAKEN else "service job cannot be created: "
    assert (said["ServiceReady"].reason, said["ServiceReady"].message) == (
        reason,
        f"{words}no, because",
    )
    assert decided.status.message == said["ServiceReady"].message, "H34"
    assert decided.requeue_after == 59
    healed = say(observed(*ALL, services=frozenset({"job"})), stored(owner, decided))
    assert (healed["ServiceReady"].status, healed["ServiceReady"].reason) == ("True", "Created")
    assert "ServiceReady" not in say(observed(*ALL, services=frozenset({"job"})), owner)


def test_a_service_that_is_no_longer_needed_is_not_a_problem() -> None:
    refused = {"service/job": ApiRejection(RejectionCause.TAKEN, "no", later(60))}
    owner = running()
    owner = stored(owner, plan(owner, observed(*ALL, rejections=refused), later(1)))
    spec = owner.spec.model_copy(update={"service": ServicePolicy.AUTO})
    healed = say(observed(*ALL, rejections=refused), owner.model_copy(update={"spec": spec}))
    assert (healed["ServiceReady"].status, healed["ServiceReady"].reason) == ("True", "NotWanted")


def test_a_rejected_service_that_is_not_needed_causes_no_reconciliations() -> None:
    """A job whose ranks all restart needs no Service before it runs again."""
    seen = observed(
        view(0, ip=""),
        view(1),
        view(2),
        rejections={"service/job": ApiRejection(RejectionCause.TAKEN, "no", later(-60))},
    )
    assert plan(job(), seen, NOW).requeue_after >= 1
