"""Deadlines, the time to live, and edits after the end: what the plan does as time passes."""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.status import format_time
from dijob.core.actions import DeleteJob
from dijob.core.decide.completion import RECORD_SECONDS
from dijob.core.observed.views import Observed
from dijob.names import ANNOTATION_RECORDED
from samples.builders import (
    NOW,
    UID,
    all_run,
    conditions_of,
    job,
    later,
    listed,
    observed,
    paused,
    plan,
    running,
    says,
    then,
    view,
)

# --- deadlines
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "failed"), [(59, False), (60, True)])
def test_the_active_deadline_ends_a_running_job(seconds: float, failed: bool) -> None:
    owner = running(activeDeadlineSeconds=60)
    decided, _ = then(owner, observed(*all_run(owner), services=frozenset({"job"})), seconds)
    assert (decided.status.phase == "Failed") is failed
    if failed:
        assert says(decided)["Failed"] == ("True", "DeadlineExceeded")
        assert "activeDeadlineSeconds (60 s)" in decided.status.message
    else:
        # The next reconciliation is at the deadline.
        assert decided.requeue_after == pytest.approx(1.5)


def test_the_startup_deadline_names_the_rank_that_never_came() -> None:
    owner = job(startupDeadlineSeconds=30)
    waiting = observed(
        view(0, owner),
        view(1, owner),
        view(2, owner, ip="", complaint="ImagePullBackOff: no such image"),
    )
    decided, owner = then(owner, waiting)
    assert decided.status.phase == "Pending"
    decided, _ = then(owner, waiting, 31)
    assert says(decided)["Failed"] == ("True", "StartupDeadlineExceeded")
    assert (
        "startupDeadlineSeconds (30 s): rank 2: ImagePullBackOff: no such image"
        in decided.status.message
    )


def test_the_startup_deadline_is_over_once_the_job_runs() -> None:
    owner = running(startupDeadlineSeconds=30)
    assert (
        then(owner, observed(*all_run(owner), services=frozenset({"job"})), 1000)[0].status.phase
        == "Running"
    )


def test_each_start_has_the_full_startup_deadline() -> None:
    owner = running(startupDeadlineSeconds=30, restart={"scope": "Job"})
    _, owner = then(owner, observed(listed(0, owner), listed(2, owner)), 1000)
    assert owner.status.last_renewal
    gated = observed(*(view(rank, owner, uid=f"new-{rank}", ip="") for rank in range(3)))
    decided, owner = then(owner, gated, 1001)
    assert decided.status.phase == "Pending"
    assert then(owner, gated, 1029)[0].status.phase == "Pending"
    assert says(then(owner, gated, 1031)[0])["Failed"] == ("True", "StartupDeadlineExceeded")


def test_deadlines_do_not_apply_while_the_job_is_paused() -> None:
    owner = running(activeDeadlineSeconds=60)
    assert (
        plan(
            paused(owner), observed(*all_run(owner), services=frozenset({"job"})), later(100)
        ).status.phase
        == "Running"
    )


def test_repeated_losses_do_not_extend_the_startup_deadline() -> None:
    owner = job(startupDeadlineSeconds=60)
    begun = observed(*(listed(rank, owner, ready=rank < 2) for rank in range(3)))
    _, owner = then(owner, begun)
    for second in (20, 40):
        lost = observed(listed(0, owner), listed(1, owner))
        _, owner = then(owner, lost, second)
    assert owner.status.last_renewal
    assert says(then(owner, begun, 61)[0])["Failed"] == ("True", "StartupDeadlineExceeded")


def test_the_startup_deadline_after_a_loss_counts_from_when_the_job_stopped() -> None:
    owner = running(startupDeadlineSeconds=600, minReplicas=1, maxReplicas=3, replicas=3)
    left = observed(listed(0, owner), listed(1, owner))
    _, owner = then(owner, left, 1000)
    done = [
        listed(rank, owner, phase="Succeeded", succeeded=True, ready=False) for rank in range(2)
    ]
    homeless = view(2, owner, uid="new", ip="", node="", complaint="Unschedulable: no node")
    _, owner = then(owner, observed(*done, homeless), 5000)
    assert says(then(owner, observed(*done, homeless), 5001)[0])["Running"][0] == "False"
    assert then(owner, observed(*done, homeless), 5001)[0].status.phase != "Failed"


def test_a_job_without_capacity_is_reconciled_at_its_deadline() -> None:
    given = {"count": 1, "until": format_time(later(400)), "message": "no room"}
    owner = job(
        status={"givenBack": given, "startTime": format_time(NOW)}, startupDeadlineSeconds=60
    )
    decided, _ = then(owner, Observed(), 55)
    assert decided.requeue_after == pytest.approx(5.5)


# --- time to live
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ttl", "seconds", "gone"), [(0, 10, True), (60, 69, False), (60, 71, True), (None, 1e6, False)]
)
def test_an_ended_job_is_deleted_after_its_time_to_live(
    ttl: int | None, seconds: float, gone: bool
) -> None:
    owner = running(ttlSecondsAfterFinished=ttl)
    done = observed(
        *all_run(owner, phase="Succeeded", succeeded=True, ready=False), services=frozenset({"job"})
    )
    _, owner = then(owner, done, 10)
    assert owner.status.phase == "Succeeded"
    decided, _ = then(owner, done, seconds)
    assert (DeleteJob() in decided.actions) is gone
    if ttl and not gone:
        assert decided.requeue_after == pytest.approx(10 + ttl - seconds + 0.5)


HISTORY: dict[str, tuple[bool, str, float, bool]] = {
    "no history": (False, "", 71, True),
    "not recorded": (True, "", 71, False),
    "not recorded for an hour": (True, "", 71 + RECORD_SECONDS, True),
    "recorded": (True, UID, 71, True),
    "recorded, before its time": (True, UID, 69, False),
    "the mark of another job": (True, "another", 71, False),
}


@pytest.mark.parametrize(("keeps", "mark", "seconds", "gone"), HISTORY.values(), ids=HISTORY)
def test_an_ended_job_is_kept_until_the_history_has_recorded_it(
    keeps: bool, mark: str, seconds: float, gone: bool
) -> None:
    owner = running(ttlSecondsAfterFinished=60)
    done = replace(
        observed(*all_run(owner, phase="Succeeded", succeeded=True, ready=False)),
        keeps_history=keeps,
    )
    _, owner = then(owner, done, 10)
    marked = owner.metadata.model_copy(update={"annotations": {ANNOTATION_RECORDED: mark}})
    decided, _ = then(owner.model_copy(update={"metadata": marked}), done, seconds)
    assert (DeleteJob() in decided.actions) is gone


def test_a_running_job_is_never_deleted() -> None:
    owner = running(ttlSecondsAfterFinished=0)
    assert then(owner, observed(*all_run(owner), services=frozenset({"job"})), 1e6)[0].actions == ()


# --- edits after the end
# -------------------------------------------------------------------------------------------

ENDED = (
    "the job has ended (Failed): delete it and apply again (kubectl dijob restart NAME -f FILE does"
    " both), or use a new name"
)
EDITS: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "suspend": ({"suspend": True}, ("Suspended", "False", "Finished")),
    "the template": ({"parallel_workers": 2}, ("Invalid", "True", "TemplateChanged")),
}


@pytest.mark.parametrize(("edit", "expected"), EDITS.values(), ids=EDITS)
def test_an_edit_of_a_failed_job_reports_what_to_do_instead(
    edit: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    """The API server may accept the edit, if its CRD is older."""
    owner = running(activeDeadlineSeconds=60, cleanPodPolicy="None")
    pods = all_run(owner)
    _, owner = then(owner, observed(*pods), 61)
    made = observed(*pods)
    decided, owner = then(owner, made, 62, **edit)
    said = conditions_of(decided)[expected[0]]
    assert (said.type, said.status, said.reason, said.message) == (*expected, ENDED)
    assert (decided.status.phase, decided.actions) == ("Failed", ())
    assert then(owner, made, 63)[0].status == decided.status
