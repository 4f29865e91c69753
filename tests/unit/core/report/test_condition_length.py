"""The message of a condition is never longer than the CRD allows, whatever text it quotes.
Otherwise the status would be rejected, and the job would report nothing.
"""

import pytest
from dijob.core.observed.grouping import MESSAGE_LIMIT, REST_LIMIT
from dijob.core.observed.views import ApiRejection, Isolation, Observed, RejectionCause
from dijob.core.report import conditions, summary
from samples.builders import NOW, conditions_of, job, later, observed, plan, view

# The API error about a NetworkPolicy with 300 invalid addresses names each field.
LONG = "; ".join(
    f'spec.ingress[{n // 64}].from[{n % 64}].ipBlock.cidr: Invalid value: "10.0.0.{n}": must be a'
    " valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    for n in range(300)
)
BY_NAME = job(addressing="Hostname")
NO = ApiRejection(RejectionCause.REJECTED, LONG, later(300))
SEEN = {
    "NetworkPolicy": (
        "Isolated",
        Observed(rejections={"networkpolicy/job": NO}, isolation=Isolation(True)),
    ),
    "Service": ("ServiceReady", Observed(rejections={"service/job": NO})),
    "pods": ("PodsCreated", Observed(rejections={f"pod/job-{rank}": NO for rank in range(3)})),
    "a pod that stays": (
        "ChangesRefused",
        observed(view(3, BY_NAME), rejections={"delete pod/job-3 uid-3": NO}),
    ),
}


@pytest.mark.parametrize(("type_", "seen"), SEEN.values(), ids=SEEN)
def test_a_long_api_error_is_cut(type_: str, seen: Observed) -> None:
    said = conditions_of(plan(BY_NAME, seen, NOW))[type_].message
    assert MESSAGE_LIMIT - REST_LIMIT <= len(said) <= MESSAGE_LIMIT
    assert said.endswith(" ...")


def test_an_error_of_the_operator_is_cut() -> None:
    owner = job()
    status = summary.apply_facts(owner.status, conditions.broken_facts(ValueError(LONG)), 1, NOW)
    assert len(status.conditions[0].message) == MESSAGE_LIMIT
