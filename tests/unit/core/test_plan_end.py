"""The end of a job: how failures and successes end it, what it reports, and what happens to its
pods.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob import names
from dijob.api.status import format_time
from dijob.core.actions import CreatePod, DeletePod, EndPod
from dijob.core.members import gang_of
from dijob.core.observed.parse import END_SECONDS
from dijob.core.observed.views import Observed
from dijob.core.plan import Plan
from dijob.core.render.annotations import end_patch
from dijob.core.report import ends
from samples.builders import (
    NOW,
    changed,
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
from samples.statuses import TERMINATED


def test_a_failure_is_stored_before_its_pod_is_deleted() -> None:
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


def test_the_job_succeeds_when_all_ranks_have_and_pods_are_cleaned_up_afterwards() -> None:
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


def test_pods_at_the_gate_of_an_ended_job_are_deleted_under_every_policy() -> None:
    """A rank that would have joined later holds its node, and a pending one makes an autoscaler add
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


def test_the_message_of_the_end_names_an_existing_log() -> None:
    """Rank 1's failure was the first, and its pod has been re-created since. The pod of rank 0 is
    kept.
    """
    first = {
        "rank": 1,
        "pod": "job-1",
        "exitCode": 3,
        "message": "no GPU",
        "time": format_time(NOW),
    }
    owner = running(backoffLimit=1, status={"listNumber": 1, "restarts": 1, "firstFailure": first})
    crashing = listed(0, ready=False, failures=1, last_end=TERMINATED)
    message = failed(then(owner, observed(crashing, listed(1), listed(2)))[0])
    assert message.endswith(
        f" (`kubectl logs job-0` shows only the container's last run; {ends.KEPT});"
        " the first failure: rank 1 exited 3: no GPU"
    )
    again = then(owner, observed(listed(0), listed(1, failures=1, last_end=TERMINATED), listed(2)))[
        0
    ]
    assert failed(again).endswith(
        f" (see `kubectl logs job-1`; {ends.KEPT}); the first failure: rank 1 exited 3: no GPU"
    )
    # Without such a pod, nothing is explained.
    over = listed(1, failures=1, last_end=TERMINATED, phase="Failed")
    never = then(owner, observed(listed(0), over, listed(2)))[0]
    assert failed(never).endswith(
        " (see `kubectl logs job-1`); the first failure: rank 1 exited 3: no GPU"
    )
    gone = then(
        running(cleanPodPolicy="All"), observed(listed(0), listed(1, failures=4), listed(2))
    )[0]
    assert "DeadlineExceeded" not in failed(gone)


def test_an_ended_pod_explains_the_reasons_of_the_kubelet() -> None:
    """The kubelet reports DeadlineExceeded, and ContainerStatusUnknown for a container that was
    waiting just then.
    """
    patch = end_patch("uid-1")
    assert (patch["metadata"]["uid"], patch["spec"]) == (
        "uid-1",
        {"activeDeadlineSeconds": END_SECONDS},
    )
    says = patch["metadata"]["annotations"][names.ANNOTATION_ENDED]
    for word in ("DeadlineExceeded", "ContainerStatusUnknown", "lastState", "logs"):
        assert word in says


def test_a_pod_whose_kubelet_has_missed_the_list_is_deleted_too() -> None:
    """Rank 1 has failed before rank 2 started. Kubelets are not reminded of the list of an ended
    job.
    """
    crashing = listed(1, ready=False, failures=4, last_end=TERMINATED)
    pods = [listed(0), crashing, listed(2, gated=True, ready=False, phase="Pending")]
    _, owner = then(running(cleanPodPolicy="None"), observed(*pods))
    after, _ = then(owner, observed(*pods))
    assert after.actions == (EndPod("job-1", "uid-1"), DeletePod("job-2", "uid-2"))


def test_failures_up_to_the_limit_do_not_end_the_job() -> None:
    pods = [listed(0), listed(1, failures=3, last_end=TERMINATED), listed(2)]
    assert then(running(), observed(*pods))[0].status.phase == "Running"


def test_failures_after_the_end_do_not_count() -> None:
    pods = [listed(0), listed(1, failures=4, ready=False, last_end=TERMINATED), listed(2)]
    _, failed = then(running(), observed(*pods))
    ended = changed(pods[1], phase="Failed", failures=5, ending_soon=True)
    decided, _ = then(failed, observed(pods[0], ended, pods[2]), 9)
    assert (decided.status.restarts, decided.status.restarts_seen) == (
        4,
        failed.status.restarts_seen,
    )


@pytest.mark.parametrize("policy", ["Running", "All", "None"])
def test_an_ended_job_gets_no_new_pods_and_no_service(policy: str) -> None:
    pods = [listed(0), listed(1, failures=4, ready=False, last_end=TERMINATED), listed(2)]
    _, failed = then(running(cleanPodPolicy=policy), observed(*pods))
    assert plan(failed, Observed(), later(9)).actions == ()
    assert plan(failed, Observed(), later(9)).requeue_after == 300


def test_succeeded_ranks_do_not_run_again_when_all_others_restart() -> None:
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


def test_a_paused_job_that_has_ended_is_not_cleaned_up() -> None:
    _, owner = then(
        running(cleanPodPolicy="All"), observed(*(listed(r, succeeded=True) for r in range(3)))
    )
    seen = observed(listed(0, phase="Succeeded", succeeded=True))
    assert plan(paused(owner), seen, NOW).actions == ()
    assert plan(paused(owner, "false"), seen, NOW).actions == (DeletePod("job-0", "uid-0"),)
