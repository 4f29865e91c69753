"""Rejected changes of existing objects: what the job reports, and when they are retried."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import Condition
from dijob.controller.observe.memory import JobMemory
from dijob.core.actions import (
    Action,
    CreatePod,
    DeleteJob,
    DeletePod,
    EndPod,
    ForceDeletePod,
    PublishAddresses,
    ReleasePod,
    RemindPod,
    SetReplicas,
)
from dijob.core.decide import changes
from dijob.core.members import gang_of
from dijob.core.observed.rejections import of_change
from dijob.core.observed.views import ApiRejection, Observed, RejectionCause
from dijob.core.plan import Plan, make_plan
from dijob.core.report import rejections
from fakes.protected import POLICY, refused
from samples.builders import (
    LIST,
    NOW,
    conditions_of,
    given,
    job,
    job_body,
    later,
    listed,
    observed,
    record,
    running,
    stored,
    view,
)

KEYS: dict[str, Action] = {
    "patch pod/x-0 u": PublishAddresses("x-0", "u", given(1, "10.0.0.0")),
    "patch pod/x-1 u": RemindPod("x-1", "u", 1, "now"),
    "patch pod/x-2 u": EndPod("x-2", "u"),
    "delete pod/x-0 u": DeletePod("x-0", "u"),
    "delete pod/x-1 u": ReleasePod("x-1", "u"),
    "delete pod/x-2 u": ForceDeletePod("x-2", "u"),
    "patch dijob": SetReplicas(3),
    "delete dijob": DeleteJob(),
    "": CreatePod(gang_of(job()).members[0]),
}


@pytest.mark.parametrize(
    ("key", "action"), KEYS.items(), ids=[type(action).__name__ for action in KEYS.values()]
)
def test_each_change_has_its_own_key_and_creations_have_none(key: str, action: Action) -> None:
    assert changes.rejection_key(action) == key
    # Each change that can be rejected has a reason and a message.
    assert {action.changes} - {""} <= rejections.REASONS.keys() == rejections.CANNOT.keys()


@pytest.mark.parametrize(
    ("status", "attempts", "why", "seconds"),
    [
        pytest.param(403, 0, RejectionCause.FORBIDDEN, 1, id="a webhook"),
        pytest.param(
            422,
            2,
            RejectionCause.FORBIDDEN,
            4,
            id="an admission policy, with its default code 422",
        ),
        pytest.param(413, 50, RejectionCause.FORBIDDEN, 60, id="too large"),
        pytest.param(429, 1, RejectionCause.UNAVAILABLE, 2, id="too many requests"),
        pytest.param(500, 1, RejectionCause.UNAVAILABLE, 2, id="a webhook that hangs"),
        pytest.param(0, 0, RejectionCause.UNAVAILABLE, 1, id="no connection"),
    ],
)
def test_a_rejected_change_is_retried_with_back_off(
    status: int, attempts: int, why: RejectionCause, seconds: float
) -> None:
    before = ApiRejection(why, "", NOW, attempts) if attempts else None
    no = of_change(status, "in its own words", before, NOW)
    assert (no.why, no.message, no.attempts) == (why, "in its own words", attempts + 1)
    assert no.retry_at - NOW == timedelta(seconds=seconds)


def said(decided: Plan, type_: str = "ChangesRefused") -> Condition | None:
    return conditions_of(decided).get(type_)


SERVED = {"services": frozenset({"job"})}
ENDED: dict[str, Any] = {
    "listNumber": 1,
    "completionTime": "2026-05-04T11:00:00Z",
    "conditions": [{"type": "Succeeded", "status": "True"}],
}
# A job and its pods, the key of a change that the plan asks for, and the reason of the condition.
WISHES: dict[str, tuple[DIJob, Observed, str, str]] = {
    "a list is published": (
        job(status={"listNumber": 1, "addressList": record(1, LIST).model_dump(by_alias=True)}),
        observed(view(0), view(1), view(2)),
        "patch pod/job-1 uid-1",
        "PodUpdateRefused",
    ),
    "a rank is deleted": (
        job(replicas=2, status={"listNumber": 1}),
        observed(*(listed(rank, ips="10.0.0.0,10.0.0.1") for rank in range(3)), **SERVED),
        "delete pod/job-2 uid-2",
        "PodDeletionRefused",
    ),
    "the wish is written": (
        job(minReplicas=3, maxReplicas=3),
        observed(*(listed(rank) for rank in range(3)), **SERVED),
        "patch dijob",
        "JobUpdateRefused",
    ),
    "a suspended job ends its pods": (
        job(suspend=True, status={"listNumber": 1, "suspendTime": "2026-05-04T11:00:00Z"}),
        observed(listed(0)),
        "delete pod/job-0 uid-0",
        "PodDeletionRefused",
    ),
    "an ended job cleans up": (
        job(status=ENDED),
        observed(listed(0)),
        "delete pod/job-0 uid-0",
        "PodDeletionRefused",
    ),
    "a time to live is over": (
        job(ttlSecondsAfterFinished=10, status=ENDED),
        Observed(),
        "delete dijob",
        "JobDeletionRefused",
    ),
}


def keys(decided: Plan) -> set[str]:
    return {changes.rejection_key(action) for action in decided.actions}


@pytest.mark.parametrize(("owner", "seen", "key", "reason"), WISHES.values(), ids=WISHES)
def test_a_rejected_change_is_reported_and_waits_for_its_back_off(
    owner: DIJob, seen: Observed, key: str, reason: str
) -> None:
    assert key in keys(make_plan(owner, seen, NOW))
    seen = replace(seen, rejections={key: refused()})
    waits = make_plan(owner, seen, NOW)
    assert key not in keys(waits)
    fact = said(waits)
    assert fact is not None
    assert (fact.status, fact.reason) == ("True", reason)
    assert POLICY in fact.message
    assert 0.1 <= waits.requeue_after <= 7
    owner = stored(owner, waits)
    assert make_plan(owner, seen, later(6)).status.conditions == waits.status.conditions
    asks = make_plan(owner, seen, later(7))
    assert key in keys(asks)
    assert said(asks) == fact  # until it is accepted


def test_the_message_of_the_job_is_that_of_the_rejection() -> None:
    owner, seen, key, _ = WISHES["a list is published"]
    decided = make_plan(owner, replace(seen, rejections={key: refused()}), NOW)
    assert decided.status.message == f"pod job-1 cannot be changed: {POLICY}"
    assert [event.reason for event in decided.events] == ["PodUpdateRefused"]


def test_many_rejected_changes_share_one_message() -> None:
    owner, seen, _, _ = WISHES["a list is published"]
    every = {f"patch pod/job-{rank} uid-{rank}": refused() for rank in range(3)}
    fact = said(make_plan(owner, replace(seen, rejections=every), NOW))
    assert fact is not None
    assert fact.message == f"pod job-0 cannot be changed: {POLICY} (and 2 more)"


def test_the_condition_is_false_once_nothing_is_rejected() -> None:
    owner, seen, key, _ = WISHES["a list is published"]
    owner = stored(owner, make_plan(owner, replace(seen, rejections={key: refused()}), NOW))
    fact = said(make_plan(owner, seen, later(9)))
    assert fact is not None
    assert (fact.status, fact.reason) == ("False", "Accepted")
    assert said(make_plan(job(), seen, NOW)) is None


def test_a_reconciliation_that_only_writes_the_status_does_not_change_the_condition() -> None:
    """A failure is stored before its pod is deleted. That reconciliation sends no change, so none
    is accepted.
    """
    owner, seen, key, _ = WISHES["a list is published"]
    seen = replace(seen, rejections={key: refused()})
    owner = stored(owner, make_plan(owner, seen, NOW))
    fails = replace(seen, pods={**seen.pods, 0: view(0, phase="Failed", failures=1)})
    fact = said(make_plan(owner, fails, NOW))
    assert fact is not None
    assert fact.status == "True"


@pytest.mark.parametrize(("attempts", "told"), [(1, False), (2, True)], ids=["once", "twice"])
def test_a_single_call_without_a_response_is_not_reported(attempts: int, told: bool) -> None:
    owner, seen, key, _ = WISHES["a list is published"]
    decided = make_plan(owner, replace(seen, rejections={key: refused(503, attempts)}), NOW)
    assert key not in keys(decided)
    fact = said(decided)
    assert (fact.reason if fact else "") == ("ApiUnavailable" if told else "")


def test_a_rejected_reminder_is_retried_after_its_back_off_without_reconciliations_in_between() -> (
    None
):
    pods = [listed(0), listed(1, gated=True, ready=False), listed(2)]
    seen = observed(
        *pods,
        **SERVED,
        list_seen={("uid-1", 1): NOW},
        rejections={"patch pod/job-1 uid-1": refused(seconds=20)},
    )
    decided = make_plan(running(), seen, later(9))
    assert decided.actions == ()
    assert decided.requeue_after >= 4
    assert [type(action) for action in make_plan(running(), seen, later(20)).actions] == [RemindPod]


def test_a_paused_job_reports_no_rejections() -> None:
    _, seen, key, _ = WISHES["a list is published"]
    body = job_body(
        status={
            "conditions": [
                {"type": "ChangesRefused", "status": "True", "reason": "PodUpdateRefused"}
            ]
        }
    )
    body["metadata"]["annotations"] = {"diengine.opendilab.org/paused": "true"}
    fact = said(make_plan(parse_job(body), replace(seen, rejections={key: refused()}), NOW))
    assert fact is not None
    assert fact.status == "False"


def test_rejections_about_a_deleted_pod_are_forgotten() -> None:
    memory = JobMemory()
    memory.rejections = {
        key: refused() for key in (*KEYS, "pod/job-7", "patch pod/job-1 old") if key
    }
    memory.saw_pods([view(0, name="x-0", uid="u"), view(1)], NOW)
    assert set(memory.rejections) == {*(key for key in KEYS if key), "pod/job-7"}
