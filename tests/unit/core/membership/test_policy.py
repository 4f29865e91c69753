"""The failure policy and the success policy: one row per rule."""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.core.members import gang_of
from dijob.core.membership.policy import Policy
from dijob.core.membership.world import World
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Pod
from dijob.core.plan import Plan
from dijob.names import FailureAction
from samples.builders import (
    NOW,
    Body,
    changed,
    job,
    later,
    listed,
    observed,
    paused,
    plan,
    running,
    says,
    stored,
    tasks_job,
    view,
)

NEVER = {"restartPolicy": "Never"}
EVICTED = "DisruptionTarget=True"


def failed(rank: int = 1, code: int = 1, **fields: Any) -> Pod:
    ended: dict[str, Any] = {
        "phase": "Failed",
        "ready": False,
        "failures": 1,
        "last_end": ContainerEnding(code, 0, "Error", "boom"),
    }
    return listed(rank, **ended | fields)


def codes(*values: int, operator: str = "In", **rule: Any) -> Body:
    return {"onExitCodes": {"operator": operator, "values": list(values)}, **rule}


# (the rules, the pod that failed, the resulting action)
RULES: dict[str, tuple[list[Body], Pod, str]] = {
    "no rule": ([], failed(), "Restart"),
    "no rule, evicted": ([], failed(disrupted=True), "Ignore"),
    "the exit code": ([codes(1, 2, action="FailJob")], failed(code=2), "FailJob"),
    "another exit code": ([codes(1, 2, action="FailJob")], failed(code=3), "Restart"),
    "not one of these": ([codes(1, operator="NotIn", action="FailJob")], failed(code=3), "FailJob"),
    "one of these": ([codes(1, operator="NotIn", action="FailJob")], failed(code=1), "Restart"),
    "no exit code is known": (
        [codes(1, operator="NotIn", action="FailJob")],
        failed(last_end=None),
        "Restart",
    ),
    "a condition of the pod": (
        [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}],
        failed(disrupted=True, conditions=(EVICTED,)),
        "FailJob",
    ),
    "one of several conditions": (
        [
            {
                "action": "Restart",
                "onPodConditions": [{"type": "Other"}, {"type": "DisruptionTarget"}],
            }
        ],
        failed(disrupted=True, conditions=(EVICTED,)),
        "Restart",
    ),
    "the condition is False": (
        [{"action": "FailJob", "onPodConditions": [{"type": "Sick", "status": "False"}]}],
        failed(conditions=("Sick=False",)),
        "FailJob",
    ),
    "no such condition": (
        [{"action": "FailJob", "onPodConditions": [{"type": "Sick"}]}],
        failed(),
        "Restart",
    ),
    "both must hold": (
        [codes(1, action="FailJob", onPodConditions=[{"type": "Sick"}])],
        failed(conditions=("Sick=True",), code=2),
        "Restart",
    ),
    "evicted, and the rule is about every failure": (
        [{"action": "FailJob"}],
        failed(disrupted=True, conditions=(EVICTED,)),
        "Ignore",
    ),
    "evicted, and the rule is about its exit code": (
        [codes(1, action="FailJob")],
        failed(disrupted=True),
        "Ignore",
    ),
    "evicted, but an earlier rule forgives all": (
        [
            {"action": "Ignore"},
            {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]},
        ],
        failed(disrupted=True, conditions=(EVICTED,)),
        "Ignore",
    ),
    "every failure": ([{"action": "Ignore"}], failed(), "Ignore"),
    "the first that matches": (
        [codes(9, action="FailJob"), codes(1, action="Ignore"), {"action": "FailJob"}],
        failed(),
        "Ignore",
    ),
}


@pytest.mark.parametrize(("rules", "pod", "action"), RULES.values(), ids=RULES)
def test_the_first_matching_rule_applies(rules: list[Body], pod: Pod, action: str) -> None:
    owner = job(NEVER, failurePolicy={"rules": rules})
    assert Policy.of(owner, gang_of(owner)).action(pod) == action


@pytest.mark.parametrize(
    ("rank", "action"),
    [(0, "FailJob"), (1, "Restart"), (2, "Ignore"), (3, "Ignore")],
    ids=lambda value: str(value),
)
def test_a_rule_of_a_task_matches_only_its_ranks(rank: int, action: str) -> None:
    rules = [{"action": "FailJob", "task": "learner"}, {"action": "Ignore", "task": "collector"}]
    owner = tasks_job(failurePolicy={"rules": rules})
    assert Policy.of(owner, gang_of(owner)).action(failed(rank)) == action


@pytest.mark.parametrize(("preemptible", "action"), [(True, "Ignore"), (False, "Restart")])
def test_an_end_by_sigterm_of_a_preemptible_job_is_not_counted(
    preemptible: bool, action: str
) -> None:
    owner = job(preemptible=preemptible)
    policy = Policy.of(owner, gang_of(owner))
    assert policy.action(failed(code=143)) == action
    assert policy.action(failed(code=137)) == "Restart"


@pytest.mark.parametrize(
    ("spec", "action"),
    [
        ({"runtime": "torch"}, "RestartJob"),
        ({"runtime": "oneflow"}, "RestartJob"),
        ({"runtime": "slurm"}, "Restart"),
        ({"runtime": "torch", "restart": {"scope": "Pod"}}, "Restart"),
        ({"restart": {"scope": "Job"}}, "Restart"),
        ({"runtime": "torch", "failurePolicy": {"rules": [{"action": "Ignore"}]}}, "Ignore"),
    ],
    ids=str,
)
def test_a_failure_restarts_all_ranks_if_they_can_only_start_together(
    spec: Body, action: str
) -> None:
    owner = job(**spec)
    policy = Policy.of(owner, gang_of(owner))
    assert policy.action(failed()) == action
    assert policy.action(failed(disrupted=True)) == "Ignore"


@pytest.mark.parametrize(("runtime", "anew"), [("torch", {0, 1, 2}), ("ditask", {0})])
def test_a_rendezvous_meets_no_process_of_the_old_world(runtime: str, anew: set[int]) -> None:
    """Ranks with fixed membership are re-created. In its pod, one could start while another is
    still ending.
    """
    owner = running(runtime=runtime)
    pods = [listed(rank, owner, restartable=True, deleting=not rank) for rank in range(3)]
    dead = plan(owner, observed(*pods), NOW).status
    world = World.of(gang_of(owner), observed(*pods), dead, NOW)
    assert world.renewing == {0, 1, 2}
    assert world.ranks_to_recreate == anew


def test_the_message_names_the_runtime_if_no_rule_matches() -> None:
    owner = running(pod=NEVER, runtime="torch")
    decided = plan(owner, observed(*ranks(owner, failed(owner=owner))), NOW)
    renewal = decided.status.last_renewal
    assert renewal is not None
    assert renewal.message == "rank 1 exited 1: boom, and runtime: torch says RestartJob"
    assert renewal.ranks == "0-2"


SUCCESSES: dict[str, tuple[Body, set[int], bool]] = {
    "all, one is missing": ({}, {0, 1, 2}, False),
    "all": ({}, {0, 1, 2, 3}, True),
    "rank 0": ({"successPolicy": "Rank0"}, {0}, True),
    "rank 0, another one": ({"successPolicy": "Rank0"}, {1, 2}, False),
    "the learner": ({"successPolicy": "learner"}, {0}, True),
    "the collectors, one of two": ({"successPolicy": "collector"}, {0, 1, 2}, False),
    "the collectors": ({"successPolicy": "collector"}, {2, 3}, True),
}


@pytest.mark.parametrize(("spec", "succeeded", "done"), SUCCESSES.values(), ids=SUCCESSES)
def test_which_ranks_must_succeed(spec: Body, succeeded: set[int], done: bool) -> None:
    owner = tasks_job(**spec)
    waiting = frozenset(range(4)) - succeeded
    assert Policy.of(owner, gang_of(owner)).fulfilled(frozenset(succeeded), waiting) is done


# --- the resulting plan
# -------------------------------------------------------------------------------------


def ranks(owner: DIJob, pod: Pod) -> list[Pod]:
    """Return all ranks as running, except this one."""
    pod = changed(pod, template_hash=view(0, owner).made.template_hash)
    return [pod if rank == pod.rank else listed(rank, owner) for rank in range(3)]


def after(action: str, pod: Pod | None = None, **spec: Any) -> tuple[DIJob, Plan]:
    owner = running(pod=NEVER, failurePolicy={"rules": [{"action": action}]}, **spec)
    return owner, plan(owner, observed(*ranks(owner, pod or failed())), later(10))


def test_fail_job_ends_the_job_at_once() -> None:
    _, decided = after("FailJob", backoffLimit=10)
    assert says(decided)["Failed"] == ("True", "FailurePolicy")
    assert (
        "rank 1 exited 1: boom, and failurePolicy.rules[0] says FailJob" in decided.status.message
    )
    assert decided.status.completion_time


def test_restart_job_restarts_all_ranks_and_counts_once() -> None:
    _, decided = after("RestartJob")
    assert decided.status.last_renewal is not None
    assert (decided.status.last_renewal.reason, decided.status.last_renewal.ranks) == (
        "FailurePolicy",
        "0-2",
    )
    assert decided.status.restarts == 1
    assert decided.actions == ()  # It is stored first.


def test_restart_job_is_not_lost_while_the_job_is_paused() -> None:
    owner = running(pod=NEVER, failurePolicy={"rules": [{"action": "RestartJob"}]})
    decided = plan(paused(owner), observed(*ranks(owner, failed())), later(10))
    assert decided.actions == ()
    assert decided.status.last_renewal is not None
    assert decided.status.last_renewal.ranks == "0-2"


def test_restart_affects_only_the_ranks_that_must() -> None:
    _, decided = after("Restart")
    assert decided.status.last_renewal is not None
    assert (decided.status.last_renewal.reason, decided.status.last_renewal.ranks) == (
        "PodFailed",
        "1-2",
    )
    assert decided.status.restarts == 1


def test_ignore_restarts_the_rank_without_counting() -> None:
    owner, decided = after("Ignore", backoffLimit=0)
    assert decided.status.last_renewal is not None
    assert decided.status.last_renewal.ranks == "1-2"
    assert (decided.status.restarts, decided.status.first_failure) == (0, None)
    assert (
        plan(stored(owner, decided), observed(*ranks(owner, failed())), later(11)).status.restarts
        == 0
    )


def test_an_eviction_counts_once_if_a_rule_matches_it() -> None:
    rules = [{"action": "Restart", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    owner = running(pod=NEVER, failurePolicy={"rules": rules})
    pod = failed(disrupted=True, conditions=(EVICTED,), failures=2)
    decided = plan(owner, observed(*ranks(owner, pod)), later(10))
    assert decided.status.restarts == 1
    assert (
        plan(stored(owner, decided), observed(*ranks(owner, pod)), later(11)).status.restarts == 1
    )


@pytest.mark.parametrize("action", [a.value for a in FailureAction])
def test_every_action_is_a_row_here(action: str) -> None:
    assert any(row[2] == action for row in RULES.values()) or action == "RestartJob"


def test_success_of_the_decisive_ranks_ends_the_job_and_the_others() -> None:
    owner = running(pod=NEVER, successPolicy="Rank0")
    pods = [listed(0, owner, phase="Succeeded", succeeded=True), listed(1, owner), listed(2, owner)]
    decided = plan(owner, observed(*pods), later(10))
    assert says(decided)["Succeeded"] == ("True", "SuccessPolicy")
    assert decided.status.message == "rank 0 has exited 0, as successPolicy: Rank0 requires"
    actions = plan(stored(owner, decided), observed(*pods), later(11)).actions
    assert {a.name for a in actions} == {"job-1", "job-2"}  # type: ignore[union-attr]
