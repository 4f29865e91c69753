"""What the plan decides, situation by situation: the actions, the conditions, when to look
again.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.api.status import timestamp
from dijob.core.actions import (
    CreateInOrder,
    CreatePod,
    CreateShared,
    DeletePod,
    EndPod,
    RemindPod,
    SetReplicas,
)
from dijob.core.decide import completion
from dijob.core.decide.plan import Plan
from dijob.core.members import gang_of
from dijob.core.observed.containers import Ending
from dijob.core.observed.parse import END_SECONDS
from dijob.core.observed.views import Creation, Observed, Pod, Refusal, Refused
from dijob.core.render import service
from dijob.core.render.annotations import end_patch
from unit.builders import (
    LIST,
    NOW,
    changed,
    conditions_of,
    gives,
    hands_out,
    job,
    later,
    listed,
    lists_of,
    observed,
    paused,
    plan,
    running,
    says,
    then,
    view,
)

TERMINATED = Ending(1, 0, "Error", "boom")


def created(decided: Plan) -> list[int]:
    found = [action.member for action in decided.actions if isinstance(action, CreatePod)]
    ordered = (action.members for action in decided.actions if isinstance(action, CreateInOrder))
    return [member.rank for member in [*found, *chain.from_iterable(ordered)]]


def test_a_new_job_gets_all_its_pods_at_once() -> None:
    decided, _ = then(job(), Observed())
    assert created(decided) == [0, 1, 2]
    assert says(decided)["PodsCreated"] == ("False", "Creating")
    assert decided.status.phase == "Pending"


def test_the_wish_is_written_once_where_the_user_left_it_out() -> None:
    decided, _ = then(job(minReplicas=2, maxReplicas=2), Observed())
    assert decided.actions[0] == SetReplicas(2)
    assert not any(
        isinstance(action, SetReplicas) for action in plan(job(replicas=2), Observed(), NOW).actions
    )


def test_nothing_is_published_before_the_last_address() -> None:
    decided, _ = then(job(), observed(view(0), view(1), view(2, ip="")))
    assert decided.actions == ()
    assert "rank 2" in decided.status.conditions[1].message


def test_the_last_address_publishes_the_list_to_all() -> None:
    decided = hands_out(job(), observed(view(0), view(1), view(2)), NOW)
    assert decided.actions == tuple(gives(r, 1, LIST) for r in range(3))


def test_a_list_half_handed_out_is_handed_on_under_the_same_number() -> None:
    decided, _ = then(job(), observed(listed(0, ready=False), view(1), view(2)))
    assert decided.actions == tuple(gives(r, 1, LIST) for r in (1, 2))


def test_running_needs_all_ready_once_and_then_holds() -> None:
    pods = [listed(rank, ready=rank < 2) for rank in range(3)]
    assert says(then(job(), observed(*pods))[0])["Running"] == ("False", "Starting")
    assert says(then(running(), observed(*pods))[0])["Running"] == ("True", "Begun")


def test_the_service_comes_once_the_job_runs() -> None:
    pods = [listed(rank) for rank in range(3)]
    assert plan(running(), observed(*pods), NOW).actions == (CreateShared(service.manifests),)
    assert plan(running(), observed(*pods, services=frozenset({"job"})), NOW).actions == ()


def test_a_service_is_made_where_names_are_used() -> None:
    pods = [listed(rank) for rank in range(3)]
    assert plan(running(service="Auto"), observed(*pods), NOW).actions == ()
    named = job(service="Auto", addressing="Hostname")
    assert CreateShared(service.manifests) in plan(named, observed(), NOW).actions


def test_nothing_to_do_changes_nothing() -> None:
    owner, pods = running(), [listed(rank) for rank in range(3)]
    decided = plan(owner, observed(*pods, services=frozenset({"job"})), later(1000))
    assert (decided.actions, decided.events, decided.status) == ((), (), owner.status)
    assert decided.requeue_after == 300


LOSSES = {
    "PodLost": {},
    "PodDeleted": {1: listed(1, deleting=True)},
    "PodFailed": {1: listed(1, phase="Failed", ready=False, disrupted=True)},
    "AddressChanged": {1: listed(1, ip="10.0.0.9")},
    "SandboxLost": {1: listed(1, sandbox=False)},
}


@pytest.mark.parametrize(("reason", "rank_1"), LOSSES.items(), ids=LOSSES)
def test_any_loss_kills_the_list_in_writing_before_anything_is_done(
    reason: str, rank_1: dict[int, Pod]
) -> None:
    pods = [listed(0), *rank_1.values(), listed(2)]
    decided, owner = then(running(), observed(*pods))
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    assert says(decided)["AddressesReady"] == ("False", reason)
    assert says(decided)["PeersReady"] == ("False", "Renewing")
    assert says(decided)["Running"] == ("True", "Begun")  # rank 0 runs on
    assert "rank 1" in (decided.status.last_renewal.message if decided.status.last_renewal else "")
    assert decided.status.restarts == 0
    after, _ = then(owner, observed(*pods))
    gone = {action.name for action in after.actions if isinstance(action, DeletePod)}
    assert "job-2" in gone
    assert "job-0" not in gone
    assert after.status.renewals == 1


def test_the_next_list_has_the_next_number() -> None:
    _, owner = then(running(), observed(listed(0), listed(2)))
    decided = hands_out(
        owner, observed(view(0, uid="n0"), view(1, uid="n1"), view(2, uid="n2")), NOW
    )
    assert {one.number for one in lists_of(decided.actions)} == {2}


def scaled(owner: DIJob, replicas: int) -> DIJob:
    return owner.model_copy(update={"spec": owner.spec.model_copy(update={"replicas": replicas})})


def test_growing_touches_nobody_who_runs() -> None:
    owner, seen = scaled(running(), 5), [listed(rank) for rank in range(3)]
    assert created(then(owner, observed(*seen))[0]) == [3, 4]
    half, _ = then(owner, observed(*seen, view(3, placed=NOW.isoformat()), view(4, ip="")))
    assert half.actions == (CreateShared(service.manifests),)
    decided = hands_out(owner, observed(*seen, view(3), view(4), services=frozenset({"job"})), NOW)
    ips = ",".join(f"10.0.0.{rank}" for rank in range(5))
    assert decided.actions == tuple(gives(r, 2, ips) for r in range(5))
    assert decided.status.renewals == 0
    assert says(decided)["Running"] == ("True", "Begun")


def test_shrinking_takes_the_highest_and_touches_nobody_else() -> None:
    owner, seen = (
        scaled(running(), 2),
        observed(*(listed(rank) for rank in range(3)), services=frozenset({"job"})),
    )
    decided = hands_out(owner, seen, NOW)
    told = tuple(gives(r, 2, "10.0.0.0,10.0.0.1") for r in range(2))
    assert decided.actions == (*told, DeletePod("job-2", "uid-2"))
    assert decided.status.renewals == 0


@pytest.mark.parametrize(("replicas", "more"), [(2, ()), (4, (view(3),))], ids=["shrinks", "grows"])
def test_programs_that_take_no_member_in_are_all_made_anew_in_the_new_size(
    replicas: int, more: tuple[Pod, ...]
) -> None:
    owner = scaled(running(restart={"scope": "Job"}), replicas)
    decided, _ = then(owner, observed(*(listed(rank) for rank in range(3)), *more))
    assert says(decided)["AddressesReady"] == ("False", "Scaled")
    assert decided.status.last_renewal is not None
    assert decided.status.last_renewal.ranks == "0-2"  # also who leaves: he may be wished for again
    assert decided.status.last_renewal.message == f"replicas changed from 3 to {replicas}"


def test_a_world_that_is_done_does_not_wait_for_those_who_never_joined() -> None:
    owner = scaled(running(), 4)
    done = [listed(rank, succeeded=True, ready=False) for rank in range(3)]
    assert then(owner, observed(*done, view(3, ip="")))[0].status.phase == "Succeeded"


def test_a_failure_is_written_before_its_pod_is_deleted() -> None:
    never = job({"restartPolicy": "Never"})
    failed = view(1, never, phase="Failed", failures=1, last_end=TERMINATED)
    decided, owner = then(never, observed(view(0, never), failed, view(2, never, ip="")))
    assert decided.actions == ()
    assert (
        decided.status.restarts,
        decided.status.first_failure.rank if decided.status.first_failure else -1,
    ) == (
        1,
        1,
    )
    after, _ = then(owner, observed(view(0, never), failed, view(2, never, ip="")))
    assert after.actions == (DeletePod("job-1", "uid-1"),)
    assert after.status.restarts == 1


def test_all_ranks_done_is_success_and_only_then_pods_are_cleaned() -> None:
    done = [listed(rank, phase="Running", succeeded=True, ready=False) for rank in range(3)]
    decided, owner = then(running(), observed(*done))
    assert (decided.actions, decided.status.phase, decided.status.succeeded_ranks) == (
        (),
        "Succeeded",
        "0-2",
    )
    after, _ = then(owner, observed(*done))
    assert after.actions == tuple(DeletePod(f"job-{rank}", f"uid-{rank}") for rank in range(3))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "Running",
            (EndPod("job-1", "uid-1"), DeletePod("job-0", "uid-0"), DeletePod("job-2", "uid-2")),
        ),
        ("None", (EndPod("job-1", "uid-1"),)),
        ("All", tuple(DeletePod(f"job-{rank}", f"uid-{rank}") for rank in range(3))),
    ],
)
def test_more_failures_than_allowed_end_the_job(policy: str, expected: tuple[Any, ...]) -> None:
    crashing = listed(1, ready=False, failures=4, last_end=TERMINATED)
    pods = [listed(0), crashing, listed(2)]
    decided, owner = then(running(cleanPodPolicy=policy), observed(*pods))
    assert (decided.actions, decided.status.phase) == ((), "Failed")
    assert says(decided)["Failed"] == ("True", "BackoffLimitExceeded")
    after, _ = then(owner, observed(*pods))
    assert after.actions == expected
    assert (
        plan(owner, observed(replace(crashing, ending_soon=True)), NOW).actions == ()
        or policy == "All"
    )


def test_whatever_the_policy_nobody_waits_at_the_gate_of_a_job_that_has_ended() -> None:
    """A rank that would have joined later holds its node, and a pending one asks an autoscaler for
    another.
    """
    owner = job(minReplicas=1, maxReplicas=3, replicas=3, cleanPodPolicy="None")
    pods = [listed(0, ips="10.0.0.0", succeeded=True, ready=False), view(1, ip=""), view(2, ip="")]
    decided, owner = then(owner, observed(*pods))
    assert decided.status.phase == "Succeeded"
    after, _ = then(owner, observed(*pods))
    assert after.actions == (DeletePod("job-1", "uid-1"), DeletePod("job-2", "uid-2"))


def failed(decided: Plan) -> str:
    return conditions_of(decided)["Failed"].message


def test_the_message_of_the_end_says_where_there_is_a_log() -> None:
    """Rank 1's failure was the first, and its pod has been made anew since: rank 0's is the one
    that is kept.
    """
    first = {"rank": 1, "pod": "job-1", "exitCode": 3, "message": "no GPU", "time": timestamp(NOW)}
    owner = running(backoffLimit=1, status={"listNumber": 1, "restarts": 1, "firstFailure": first})
    crashing = listed(0, ready=False, failures=1, last_end=TERMINATED)
    message = failed(then(owner, observed(crashing, listed(1), listed(2)))[0])
    assert message.endswith(
        "the first failure: rank 1 exited 3: no GPU; `kubectl logs job-0` has what came last"
        + completion.KEPT
    )
    again = then(owner, observed(listed(0), listed(1, failures=1, last_end=TERMINATED), listed(2)))[
        0
    ]
    assert failed(again).endswith(
        "the first failure: rank 1 exited 3: no GPU, see `kubectl logs job-1`" + completion.KEPT
    )
    # Where nothing is ended so, nothing is explained.
    over = listed(1, failures=1, last_end=TERMINATED, phase="Failed")
    never = then(owner, observed(listed(0), over, listed(2)))[0]
    assert failed(never).endswith("see `kubectl logs job-1`")
    gone = then(
        running(cleanPodPolicy="All"), observed(listed(0), listed(1, failures=4), listed(2))
    )[0]
    assert "DeadlineExceeded" not in failed(gone)


def test_a_pod_that_is_ended_says_what_the_kubelets_words_for_it_mean() -> None:
    """The kubelet says DeadlineExceeded of it, and ContainerStatusUnknown of a container that
    waited just then.
    """
    patch = end_patch("uid-1")
    assert (patch["metadata"]["uid"], patch["spec"]) == (
        "uid-1",
        {"activeDeadlineSeconds": END_SECONDS},
    )
    says = patch["metadata"]["annotations"][names.ANNOTATION_ENDED]
    for word in ("DeadlineExceeded", "ContainerStatusUnknown", "lastState", "logs"):
        assert word in says


def test_nobody_waits_there_with_a_list_that_its_kubelet_has_missed_either() -> None:
    """Rank 1 has failed before rank 2 began, and a kubelet is not reminded of the list of a job
    that has ended.
    """
    crashing = listed(1, ready=False, failures=4, last_end=TERMINATED)
    pods = [listed(0), crashing, listed(2, gated=True, ready=False, phase="Pending")]
    _, owner = then(running(cleanPodPolicy="None"), observed(*pods))
    after, _ = then(owner, observed(*pods))
    assert after.actions == (EndPod("job-1", "uid-1"), DeletePod("job-2", "uid-2"))


def test_as_many_failures_as_allowed_do_not() -> None:
    pods = [listed(0), listed(1, failures=3, last_end=TERMINATED), listed(2)]
    assert then(running(), observed(*pods))[0].status.phase == "Running"


def test_a_gate_that_does_not_see_its_list_is_reminded() -> None:
    """The kubelet's volume manager may lose the update; without a reminder the rank would wait for
    its next round.
    """
    pods = [listed(0), listed(1, gated=True, ready=False), listed(2)]
    told = {("uid-1", 1): NOW}
    waits, _ = then(running(), observed(*pods, services=frozenset({"job"}), list_seen=told), 3)
    assert (waits.actions, waits.requeue_after) == ((), 1.0)
    late, _ = then(running(), observed(*pods, services=frozenset({"job"}), list_seen=told), 9)
    assert late.actions == (RemindPod("job-1", "uid-1", 1, timestamp(later(9))),)
    reminded = {("uid-1", 1): later(9)}
    again, _ = then(
        running(),
        observed(*pods, services=frozenset({"job"}), list_seen=told, reminded=reminded),
        10,
    )
    assert again.actions == ()
    unlisted = view(1, gated=True)
    assert not any(
        isinstance(a, RemindPod)
        for a in then(job(), observed(view(0), unlisted, view(2)), 99)[0].actions
    )


REFUSALS = {
    Refused.TAKEN: "PodNameTaken",
    Refused.TERMINATING: "WaitingForOldPod",
    Refused.REJECTED: "PodRejected",
    Refused.FORBIDDEN: "PodForbidden",
    Refused.UNAVAILABLE: "ApiUnavailable",
}


@pytest.mark.parametrize(("why", "reason"), REFUSALS.items(), ids=REFUSALS.values())
def test_a_refused_pod_is_said_and_asked_for_again_when_it_is_time(
    why: Refused, reason: str
) -> None:
    refusals = {"pod/job-1": Refusal(why, "no, because", later(7))}
    seen = observed(view(0), view(2), refusals=refusals)
    decided, _ = then(job(), seen)
    assert created(decided) == []
    assert says(decided)["PodsCreated"] == ("False", reason)
    assert "rank 1: no, because" in decided.status.conditions[0].message
    assert decided.requeue_after <= 7
    assert created(plan(job(), seen, later(7))) == [1]


def test_a_pod_that_goes_again_and_again_is_made_ever_more_slowly() -> None:
    seen = observed(view(0), view(2), creations={"job-1": Creation(4, NOW)})
    assert created(plan(job(), seen, later(7.9))) == []
    assert created(plan(job(), seen, later(8))) == [1]
    assert created(plan(job(), observed(creations={"job-1": Creation(50, NOW)}), later(601))) == [
        0,
        1,
        2,
    ]


def test_a_template_that_is_not_the_pods_own_is_said_and_nothing_is_touched() -> None:
    owner = running()
    edited = owner.model_copy(
        update={"spec": owner.spec.model_copy(update={"parallel_workers": 2})}
    )
    decided, _ = then(edited, observed(listed(0), listed(2)))
    assert decided.actions == ()
    assert says(decided)["Invalid"] == ("True", "TemplateChanged")


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    leaving = job()
    leaving = leaving.model_copy(
        update={
            "metadata": leaving.metadata.model_copy(
                update={"deletion_timestamp": "2026-05-04T12:00:00Z"}
            )
        }
    )
    assert plan(leaving, Observed(), NOW) == Plan(leaving.status)


def test_after_the_end_nothing_is_charged_any_more() -> None:
    pods = [listed(0), listed(1, failures=4, ready=False, last_end=TERMINATED), listed(2)]
    _, failed = then(running(), observed(*pods))
    ended = changed(pods[1], phase="Failed", failures=5, ending_soon=True)
    decided, _ = then(failed, observed(pods[0], ended, pods[2]), 9)
    assert (decided.status.restarts, decided.status.restarts_seen) == (
        4,
        failed.status.restarts_seen,
    )


def test_a_back_off_of_a_day_does_not_overflow() -> None:
    """2.0 ** 1024 raises: a pod that is evicted once a minute gets there within 18 hours."""
    seen = observed(view(0), view(2), creations={"job-1": Creation(5000, NOW)})
    assert created(plan(job(), seen, later(59))) == []
    assert created(plan(job(), seen, later(60))) == [1]


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_an_ended_job_gets_no_new_pods_and_no_service(policy: str) -> None:
    pods = [listed(0), listed(1, failures=4, ready=False, last_end=TERMINATED), listed(2)]
    _, failed = then(running(cleanPodPolicy=policy), observed(*pods))
    assert plan(failed, Observed(), later(9)).actions == ()
    assert plan(failed, Observed(), later(9)).requeue_after == 300


def test_what_has_succeeded_is_not_run_again_when_the_set_is_renewed() -> None:
    _, owner = then(running(), observed(listed(0, succeeded=True), listed(1)))
    assert (owner.status.succeeded_ranks, owner.status.renewals) == ("0", 1)
    decided, _ = then(owner, observed(listed(0, succeeded=True), listed(1)))
    assert decided.actions == (CreatePod(gang_of(owner).members[2]),)


def test_every_rank_that_crashed_keeps_its_logs_when_the_job_has_failed() -> None:
    pods = [
        listed(0),
        listed(1, failures=3, last_end=TERMINATED),
        listed(2, failures=1, last_end=TERMINATED),
    ]
    decided, failed = then(running(), observed(*pods))
    assert (decided.status.phase, decided.requeue_after) == ("Failed", 0.0)
    actions = plan(failed, observed(*pods), NOW).actions
    assert actions == (
        EndPod("job-1", "uid-1"),
        EndPod("job-2", "uid-2"),
        DeletePod("job-0", "uid-0"),
    )


def test_the_start_is_when_the_job_was_first_seen() -> None:
    first, owner = then(job(), Observed())
    again, _ = then(owner, observed(view(0)), 77)
    assert first.status.start_time == again.status.start_time == "2026-05-04T12:00:00Z"


@pytest.mark.parametrize(
    ("age", "seconds"),
    [(0, 4), (15, 4), (100, 25), (240, 60), (100_000, 60)],
    ids=lambda value: f"{value}s",
)
def test_the_longer_a_job_waits_the_more_rarely_it_is_looked_at(age: float, seconds: float) -> None:
    _, owner = then(job(), Observed())
    assert (
        plan(owner, observed(view(0, ip=""), view(1), view(2)), later(age)).requeue_after == seconds
    )


def test_a_refused_service_is_asked_for_again_when_it_is_time() -> None:
    seen = observed(
        *(listed(rank) for rank in range(3)),
        refusals={"service/job": Refusal(Refused.TAKEN, "no", later(15))},
    )
    assert plan(running(), seen, later(14.9)).actions == ()
    assert plan(running(), seen, later(15)).actions == (CreateShared(service.manifests),)


def test_counts_are_of_the_pods_that_stay() -> None:
    decided, _ = then(
        running(), observed(listed(0), listed(1, ready=False), listed(2, deleting=True))
    )
    assert (decided.status.replicas, decided.status.ready_replicas) == (2, 1)
    assert decided.status.selector == "diengine.opendilab.org/job=job"


def test_a_paused_job_is_looked_at_and_left_alone() -> None:
    assert plan(paused(job()), Observed(), NOW).actions == ()
    seen = observed(listed(0), listed(1, failures=1, last_end=TERMINATED), listed(2, deleting=True))
    decided, owner = then(paused(running()), seen)
    assert (decided.actions, decided.requeue_after) == ((), 300)
    assert says(decided)["Paused"] == ("True", "Annotated")
    assert (decided.status.restarts, decided.status.renewals) == (1, 0)
    resumed, owner = then(paused(owner, None), seen)
    assert says(resumed)["Paused"] == ("False", "Resumed")
    assert resumed.status.renewals == 1
    assert created(plan(owner, observed(*list(seen.pods.values())[:2]), NOW)) == [2]


def test_a_paused_job_that_has_ended_is_not_cleaned_up() -> None:
    _, owner = then(
        running(cleanPodPolicy="All"), observed(*(listed(r, succeeded=True) for r in range(3)))
    )
    seen = observed(listed(0, phase="Succeeded", succeeded=True))
    assert plan(paused(owner), seen, NOW).actions == ()
    assert plan(paused(owner, "false"), seen, NOW).actions == (DeletePod("job-0", "uid-0"),)
