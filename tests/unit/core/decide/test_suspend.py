"""Suspend and resume: what is stored before the pods are deleted, and how the job continues."""

from datetime import timedelta

from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import parse_time
from dijob.core.actions import CreatePod, DeletePod
from dijob.core.observed.views import Observed
from samples.builders import (
    NOW,
    all_run,
    job,
    later,
    listed,
    lists_of,
    observed,
    recorded,
    running,
    says,
    tasks_body,
    tasks_job,
    then,
    view,
)


def suspended(owner: DIJob, at: float = 10) -> DIJob:
    """Return the job after its pods are deleted."""
    _, owner = then(owner, observed(*all_run(owner)), at, suspend=True)
    _, owner = then(owner, observed(*all_run(owner, deleting=True)), at + 1)
    _, owner = then(owner, observed(), at + 2)
    assert owner.status.phase == "Suspended"
    return owner


def test_a_suspension_is_stored_before_the_pods_are_deleted() -> None:
    decided, owner = then(running(), observed(*all_run(job())), 10, suspend=True)
    assert decided.actions == ()
    assert parse_time(decided.status.suspend_time) == later(10)
    assert says(decided)["Suspended"] == ("True", "Suspending")
    decided, owner = then(owner, observed(*all_run(owner)), 11)
    assert decided.actions == tuple(DeletePod(f"job-{rank}", f"uid-{rank}") for rank in range(3))
    decided, _ = then(owner, observed(), 12)
    assert says(decided)["Suspended"] == ("True", "Suspended")
    assert (decided.actions, decided.requeue_after) == ((), 300)
    assert decided.status.message == (
        "the job is suspended: set spec.suspend to false to resume it (`kubectl dijob resume job`)"
    )


def test_a_failure_at_the_suspension_is_stored_too() -> None:
    owner = running()
    crashed = [listed(0, owner), listed(1, owner, failures=1, ready=False), listed(2, owner)]
    decided, owner = then(owner, observed(*crashed), 10, suspend=True)
    assert (decided.actions, decided.status.restarts) == ((), 1)
    assert len(then(owner, observed(*crashed), 11)[0].actions) == 3


def test_a_resumed_job_has_the_same_ranks_and_the_next_revision() -> None:
    owner = suspended(running())
    decided, owner = then(owner, observed(), 100, suspend=False)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    assert decided.status.suspended_seconds == 90
    assert says(decided)["Suspended"] == ("False", "Resumed")
    decided, owner = then(owner, observed(), 101)
    assert [a.member.name for a in decided.actions if isinstance(a, CreatePod)] == [
        "job-0",
        "job-1",
        "job-2",
    ]
    new = observed(*(view(rank, owner, uid=f"new-{rank}") for rank in range(3)))
    decided, owner = then(owner, new, 102)
    assert (decided.actions, decided.status.list_number) == ((), 2)
    decided, _ = then(owner, new, 102)
    assert {one.number for one in lists_of(decided.actions)} == {2}
    assert decided.status.renewals == 0


def test_a_job_does_not_resume_before_its_old_pods_are_gone() -> None:
    owner = running()
    _, owner = then(owner, observed(*all_run(owner)), 10, suspend=True)
    ending = observed(*all_run(owner, deleting=True))
    decided, owner = then(owner, ending, 11, suspend=False)
    assert decided.actions == ()
    assert says(decided)["Suspended"] == ("True", "Suspending")
    assert "3 pods still terminating" in decided.status.message
    assert then(owner, observed(), 12)[0].status.suspend_time is None


def test_edits_during_a_suspension_apply() -> None:
    owner = suspended(running())
    _, owner = then(owner, observed(), 20, replicas=2)
    _, owner = then(owner, observed(), 30, suspend=False)
    decided, _ = then(owner, observed(), 31)
    assert [a.member.rank for a in decided.actions if isinstance(a, CreatePod)] == [0, 1]


def test_ranks_below_the_minimum_that_are_done_do_not_end_a_suspended_job() -> None:
    owner = running(minReplicas=2, maxReplicas=4, replicas=3)
    done = [
        listed(rank, owner, phase="Succeeded", succeeded=True, ready=False) for rank in range(2)
    ]
    _, owner = then(owner, observed(*done, listed(2, owner)), 5)
    _, owner = then(owner, observed(*done, listed(2, owner)), 6, suspend=True)
    decided, owner = then(owner, observed(*done, listed(2, owner)), 7)
    assert decided.status.phase == "Suspended"
    _, owner = then(owner, observed(), 8)
    _, owner = then(owner, observed(), 9, suspend=False)
    decided, _ = then(owner, observed(), 10)
    assert [a.member.rank for a in decided.actions if isinstance(a, CreatePod)] == [2]


def test_successes_are_forgotten_when_the_tasks_have_changed() -> None:
    owner = tasks_job(1, 1, successPolicy="learner", suspend=True)
    done = view(1, owner, name="job-evaluator-0", phase="Succeeded", succeeded=True)
    _, owner = then(owner, observed(done))
    assert owner.status.succeeded_ranks == "1"
    swapped = tuple(reversed(owner.spec.tasks or ()))
    decided, owner = then(owner, observed(), 5, tasks=swapped)
    assert (decided.status.phase, decided.status.succeeded_ranks) == ("Suspended", "")
    _, owner = then(owner, observed(), 6, suspend=False)
    decided, _ = then(owner, observed(), 7)
    assert sum(isinstance(action, CreatePod) for action in decided.actions) == 2


def test_pods_that_the_suspension_ends_do_not_count() -> None:
    rules = [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    owner = running(failurePolicy={"rules": rules})
    _, owner = then(owner, observed(*all_run(owner)), 10, suspend=True)
    taken = all_run(owner, deleting=True, disrupted=True, conditions=("DisruptionTarget=True",))
    assert then(owner, observed(*taken), 11)[0].status.phase == "Suspended"


def test_pods_of_renamed_tasks_are_deleted_too() -> None:
    owner = parse_job(recorded(tasks_body(replicas=2, suspend=True), "collector 2"))
    stranger = view(-1, owner, name="job-old-0", uid="s")
    _, owner = then(owner, Observed(unranked=(stranger,)))
    decided, _ = then(owner, Observed(unranked=(stranger,)), 1)
    assert decided.actions == (DeletePod("job-old-0", "s"),)


def test_time_suspended_does_not_count() -> None:
    owner = suspended(running(activeDeadlineSeconds=60))
    _, owner = then(owner, observed(), 1010, suspend=False)
    pods = observed(*all_run(owner, number=2), services=frozenset({"job"}))
    assert then(owner, pods, 1059)[0].status.phase != "Failed"
    assert says(then(owner, pods, 1061)[0])["Failed"] == ("True", "DeadlineExceeded")


def test_a_job_that_is_created_suspended_has_no_pods() -> None:
    decided, owner = then(job(suspend=True), observed())
    assert decided.actions == ()
    decided, _ = then(owner, observed(), 1)
    assert (decided.actions, decided.status.phase, decided.status.replicas) == ((), "Suspended", 0)


def test_a_success_while_the_pods_end_completes_the_job() -> None:
    owner = running()
    _, owner = then(owner, observed(*all_run(owner)), 10, suspend=True)
    done = observed(*all_run(owner, phase="Succeeded", succeeded=True, ready=False))
    decided, _ = then(owner, done, 11)
    assert decided.status.phase == "Succeeded"
    assert says(decided)["Suspended"] == ("False", "Finished")
    assert NOW + timedelta(seconds=11) == parse_time(decided.status.completion_time)
