"""The PodDisruptionBudgets of a job: created when the ranks have started, updated when that matters
to a drain, and deleted when the job stops.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.core.actions import Action, ChangeBudget, CreateBudget, DeleteBudget
from dijob.core.observed.views import ApiRejection, BudgetView, Observed, Pod, RejectionCause
from dijob.core.plan import Plan
from dijob.core.render.budget import budget_manifest, budget_spec, wanted_budgets
from samples.builders import (
    NOW,
    all_run,
    job,
    later,
    listed,
    observed,
    plan,
    running,
    says,
    stored,
    tasks_body,
    then,
)

ONE: dict[str, Any] = {"disruptionBudget": {"maxUnavailable": 1}}
NONE: dict[str, Any] = {"disruptionBudget": {"maxUnavailable": 0}}
KEY = "poddisruptionbudget/job"


def budget(owner: DIJob, least: int, name: str = "job", **other: Any) -> BudgetView:
    return BudgetView(name, "b", {**budget_spec(owner, "", least), **other})


def seen(*pods: Pod, found: BudgetView | None = None, **fields: Any) -> Observed:
    return observed(*pods, budgets={"job": found}, **fields)


def budget_actions(decided: Plan) -> list[Action]:
    kinds = CreateBudget | ChangeBudget | DeleteBudget
    return [action for action in decided.actions if isinstance(action, kinds)]


def after_successes(owner: DIJob, *ranks: int) -> DIJob:
    done = ",".join(map(str, ranks))
    return owner.model_copy(
        update={"status": owner.status.model_copy(update={"succeeded_ranks": done})}
    )


def with_tasks(*budgets: int | None) -> DIJob:
    body = tasks_body(1, 1, 2)
    for task, most in zip(body["spec"]["tasks"], budgets, strict=True):
        task["disruptionBudget"] = None if most is None else {"maxUnavailable": most}
    return parse_job(body)


def test_the_name_is_stored_before_the_budget_is_created() -> None:
    """Otherwise, an operator that starts now would not know that it must delete the budget."""
    owner = job(**ONE)
    first = plan(owner, seen(), NOW)
    assert first.status.budgets == "job"
    assert budget_actions(plan(owner, seen(*all_run(owner)), NOW)) == []


def test_the_budget_is_created_when_the_ranks_have_started() -> None:
    owner = running(**ONE)
    assert budget_actions(plan(owner, seen(*all_run(owner)), NOW)) == [CreateBudget("job", "", 2)]


def test_nothing_happens_before_the_budget_has_been_read() -> None:
    owner = running(**ONE)
    assert budget_actions(plan(owner, observed(*all_run(owner)), NOW)) == []


def test_a_job_without_a_budget_has_no_action_and_no_name() -> None:
    owner = running()
    assert owner.status.budgets == ""
    assert budget_actions(plan(owner, seen(*all_run(owner)), NOW)) == []


@pytest.mark.parametrize(
    ("spec", "succeeded", "there", "wanted"),
    [
        pytest.param(ONE, (), 2, None, id="nothing has changed"),
        pytest.param(ONE, (0,), 2, 1, id="a rank has succeeded"),
        pytest.param(ONE, (0, 1), 1, 0, id="only one rank is left"),
        pytest.param(NONE, (), 3, None, id="no eviction is allowed"),
        pytest.param(NONE, (0,), 3, None, id="a success allows no eviction either"),
        pytest.param(NONE, (), 2, 3, id="the budget is too small"),
        pytest.param(ONE, (), 3, 2, id="the job allows more evictions"),
    ],
)
def test_a_budget_is_updated_only_if_that_matters_to_a_drain(
    spec: dict[str, Any], succeeded: tuple[int, ...], there: int, wanted: int | None
) -> None:
    owner = after_successes(running(**spec), *succeeded)
    pods = [
        listed(rank, owner, **({"phase": "Succeeded", "ready": False} if rank in succeeded else {}))
        for rank in range(3)
    ]
    decided = plan(owner, seen(*pods, found=budget(owner, there)), NOW)
    expected = [] if wanted is None else [ChangeBudget("job", "", wanted, "b")]
    assert budget_actions(decided) == expected


@pytest.mark.parametrize(
    "edit",
    [
        {"selector": {"matchLabels": {}}},
        {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
        {"minAvailable": "50%"},
    ],
    ids=lambda edit: next(iter(edit)),
)
def test_an_edited_budget_is_restored(edit: dict[str, Any]) -> None:
    owner = running(**NONE)
    decided = plan(owner, seen(*all_run(owner), found=budget(owner, 3, **edit)), NOW)
    assert budget_actions(decided) == [ChangeBudget("job", "", 3, "b")]


def test_a_budget_stays_the_same_while_a_lost_rank_is_replaced() -> None:
    owner = running(**ONE)
    decided, owner = then(owner, seen(*all_run(owner)[:2], found=budget(owner, 2)))
    assert owner.status.renewals == 1
    decided = plan(owner, seen(*all_run(owner)[:2], found=budget(owner, 2)), NOW)
    assert budget_actions(decided) == []


def test_a_budget_that_is_not_wanted_any_more_is_deleted() -> None:
    owner = running(**ONE)
    without = owner.model_copy(
        update={"spec": owner.spec.model_copy(update={"disruption_budget": None})}
    )
    decided = plan(without, seen(*all_run(owner), found=budget(owner, 2)), NOW)
    assert budget_actions(decided) == [DeleteBudget("job", "b")]
    assert decided.status.budgets == "job"
    assert plan(without, seen(*all_run(owner)), NOW).status.budgets == ""


def test_the_budget_of_a_suspended_job_is_deleted() -> None:
    owner = running(**ONE)
    _, owner = then(owner, seen(*all_run(owner), found=budget(owner, 2)), suspend=True)
    decided = plan(owner, seen(*all_run(owner), found=budget(owner, 2)), NOW)
    assert budget_actions(decided) == [DeleteBudget("job", "b")]


def test_the_budget_of_an_ended_job_is_deleted() -> None:
    owner = running(**ONE, cleanPodPolicy="None", successPolicy="Rank0")
    done = [listed(0, owner, phase="Succeeded", succeeded=True), *all_run(owner)[1:]]
    seen_last = seen(*done, found=budget(owner, 2))
    owner = stored(owner, plan(owner, seen_last, NOW))
    assert owner.status.ended
    assert budget_actions(plan(owner, seen_last, NOW)) == [DeleteBudget("job", "b")]


def test_each_task_has_its_own_budget() -> None:
    owner = with_tasks(0, None, 1)
    assert [(one.name, one.task, one.most) for one in wanted_budgets(owner)] == [
        ("job-learner", "learner", 0),
        ("job-collector", "collector", 1),
    ]
    made = budget_manifest(owner, "collector", 1)
    assert made["metadata"]["name"] == "job-collector"
    assert made["metadata"]["ownerReferences"][0]["controller"]
    assert made["spec"] == {
        "minAvailable": 1,
        "selector": {"matchLabels": {names.LABEL_JOB: "job", names.LEGACY_TASK_NAME: "collector"}},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }


def test_a_change_of_a_budget_does_not_change_the_fingerprint_of_the_pods() -> None:
    assert with_tasks(0, None, 1).fingerprint == with_tasks(None, None, None).fingerprint
    assert job(**ONE).fingerprint == job().fingerprint


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (RejectionCause.TAKEN, "NameTaken"),
        (RejectionCause.FORBIDDEN, "Refused"),
        (RejectionCause.TERMINATING, ""),
    ],
)
@pytest.mark.parametrize("verb", ["", "get "])
def test_a_rejected_budget_is_reported_and_retried(
    verb: str, cause: RejectionCause, reason: str
) -> None:
    owner = running(**ONE)
    rejected = {verb + KEY: ApiRejection(cause, 'poddisruptionbudgets "job": no', later(7))}
    decided = plan(owner, seen(*all_run(owner), rejections=rejected), NOW)
    expected = ("False", reason) if reason else None
    assert says(decided).get("DrainsLimited") == expected
    if not verb:
        assert budget_actions(decided) == []
        assert decided.requeue_after <= 7


def test_the_condition_is_true_after_the_budget_has_been_created() -> None:
    owner = running(**ONE)
    rejected = {KEY: ApiRejection(RejectionCause.FORBIDDEN, "no", later(7))}
    refused = seen(*all_run(owner), rejections=rejected)
    owner = stored(owner, plan(owner, refused, NOW))
    created = seen(*all_run(owner), found=budget(owner, 2))
    assert says(plan(owner, created, NOW))["DrainsLimited"] == ("True", "Created")
    without = owner.model_copy(
        update={"spec": owner.spec.model_copy(update={"disruption_budget": None})}
    )
    assert says(plan(without, created, NOW))["DrainsLimited"] == ("True", "NotWanted")


def test_a_rejected_change_is_reported() -> None:
    owner = after_successes(running(**ONE), 0)
    key = "patch poddisruptionbudget/job b"
    rejected = {key: ApiRejection(RejectionCause.FORBIDDEN, "no", later(7))}
    pods = [listed(0, owner, phase="Succeeded", ready=False), *all_run(owner)[1:]]
    known = replace(seen(*pods, found=budget(owner, 2)), rejections=rejected)
    decided = plan(owner, known, NOW)
    assert says(decided)["ChangesRefused"] == ("True", "BudgetUpdateRefused")
    assert budget_actions(decided) == []


def test_a_budget_follows_successes_although_the_template_has_changed() -> None:
    owner = running(**ONE)
    edited = owner.status.model_copy(update={"template_hash": "other"})
    owner = owner.model_copy(update={"status": edited})
    pods = [listed(0, owner, phase="Succeeded", ready=False, succeeded=True), *all_run(owner)[1:]]
    _, owner = then(owner, seen(*pods, found=budget(owner, 2)), 1)
    decided, _ = then(owner, seen(*pods, found=budget(owner, 2)), 2)
    assert [one.least for one in budget_actions(decided) if isinstance(one, ChangeBudget)] == [1]
