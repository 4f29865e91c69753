"""The plan, situation by situation: pods, sizes, back-offs, rejections, and when the job is
reconciled again.
"""

from itertools import chain
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.core.actions import CreateInOrder, CreatePod, CreateShared, DeletePod, SetReplicas
from dijob.core.observed.views import ApiRejection, Creation, Pod, RejectionCause
from dijob.core.plan import Plan
from dijob.core.render import service
from samples.builders import (
    NOW,
    container,
    gives,
    hands_out,
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


def created(decided: Plan) -> list[int]:
    found = [action.member for action in decided.actions if isinstance(action, CreatePod)]
    ordered = (action.members for action in decided.actions if isinstance(action, CreateInOrder))
    return [member.rank for member in [*found, *chain.from_iterable(ordered)]]


def test_a_new_job_gets_all_its_pods_at_once() -> None:
    decided, _ = then(job(), observed())
    assert created(decided) == [0, 1, 2]
    assert says(decided)["PodsCreated"] == ("False", "Creating")
    assert decided.status.phase == "Pending"


def test_omitted_replicas_are_written_once() -> None:
    decided, _ = then(job(minReplicas=2, maxReplicas=2), observed())
    assert decided.actions[0] == SetReplicas(2)
    assert not any(
        isinstance(action, SetReplicas) for action in plan(job(replicas=2), observed(), NOW).actions
    )


@pytest.mark.parametrize(("stated", "known"), [(None, None), (1, 1), (2, 2)])
def test_an_unknown_number_of_processes_is_not_in_the_status(
    stated: int | None, known: int | None
) -> None:
    """N1."""
    spec = {} if stated is None else {"parallelWorkers": stated}
    script = {"containers": [container(command=["python3", "main.py"])]}
    decided, _ = then(job(script, None, **spec), observed())
    assert decided.status.parallel_workers == known


def test_running_needs_all_ranks_ready_once_and_is_then_latched() -> None:
    pods = [listed(rank, ready=rank < 2) for rank in range(3)]
    assert says(then(job(), observed(*pods))[0])["Running"] == ("False", "Starting")
    assert says(then(running(), observed(*pods))[0])["Running"] == ("True", "Begun")


NAMED: tuple[dict[str, Any], ...] = (
    {"service": "Always"},
    {"service": "Auto", "addressing": "Hostname"},
    {"service": "Auto", "runtime": "slurm"},
)


@pytest.mark.parametrize("spec", NAMED, ids=str)
def test_the_service_is_created_before_the_first_pod(spec: dict[str, Any]) -> None:
    """C1: an init container, a probe or the program may look up the name of a peer when it
    starts.
    """
    owner = job(**spec)
    first = plan(owner, observed(services=()), NOW)
    assert first.actions == (CreateShared(service.headless_manifests),)
    assert created(plan(owner, observed(), NOW)) == [0, 1, 2]


def test_a_job_of_an_older_operator_gets_its_service_and_keeps_its_pods() -> None:
    """C1: an older operator created the Service only when all ranks were Ready."""
    starting = [view(rank, ip="", phase="Pending") for rank in range(2)]
    decided = plan(job(), observed(*starting, services=()), NOW)
    assert CreateShared(service.headless_manifests) in decided.actions
    assert created(decided) == [2]


@pytest.mark.parametrize(
    "why", [RejectionCause.TAKEN, RejectionCause.FORBIDDEN, RejectionCause.TERMINATING]
)
def test_the_first_pods_wait_for_a_rejected_service_without_further_requests(
    why: RejectionCause,
) -> None:
    """C1: without the Service, a program that looks up a name only once would fail, and the failure
    would count.
    """
    no = {"service/job": ApiRejection(why, "no", later(15))}
    waits = plan(job(), observed(services=(), rejections=no), NOW)
    assert (waits.actions, waits.requeue_after) == ((), 4.0)
    again = plan(job(), observed(services=(), rejections=no), later(15))
    assert again.actions == (CreateShared(service.headless_manifests),)


def test_a_lost_rank_is_recreated_without_the_service() -> None:
    """C1: most programs use addresses, so a running job recovers without names."""
    no = {"service/job": ApiRejection(RejectionCause.TAKEN, "no", later(15))}
    owner, ranks = running(), [listed(0), listed(2)]
    _, lost = then(owner, observed(*ranks, services=(), rejections=no))
    decided, _ = then(lost, observed(*ranks, services=(), rejections=no), 1)
    assert created(decided) == [1]


def test_no_service_is_created_if_names_are_not_used() -> None:
    pods = [listed(rank) for rank in range(3)]
    assert plan(running(service="Auto"), observed(*pods, services=()), NOW).actions == ()
    assert created(plan(job(service="Auto"), observed(services=()), NOW)) == [0, 1, 2]


def test_a_plan_without_work_is_empty() -> None:
    owner, pods = running(), [listed(rank) for rank in range(3)]
    decided = plan(owner, observed(*pods, services=frozenset({"job"})), later(1000))
    assert (decided.actions, decided.events, decided.status) == ((), (), owner.status)
    assert decided.requeue_after == 300


def scaled(owner: DIJob, replicas: int) -> DIJob:
    return owner.model_copy(update={"spec": owner.spec.model_copy(update={"replicas": replicas})})


def test_growing_does_not_affect_running_ranks() -> None:
    owner, seen = scaled(running(), 5), [listed(rank) for rank in range(3)]
    assert created(then(owner, observed(*seen))[0]) == [3, 4]
    half, _ = then(owner, observed(*seen, view(3, placed=NOW.isoformat()), view(4, ip="")))
    assert half.actions == ()
    decided = hands_out(owner, observed(*seen, view(3), view(4), services=frozenset({"job"})), NOW)
    ips = ",".join(f"10.0.0.{rank}" for rank in range(5))
    assert decided.actions == tuple(gives(r, 2, ips) for r in range(5))
    assert decided.status.renewals == 0
    assert says(decided)["Running"] == ("True", "Begun")


def test_shrinking_deletes_only_the_highest_ranks() -> None:
    owner, seen = (
        scaled(running(), 2),
        observed(*(listed(rank) for rank in range(3)), services=frozenset({"job"})),
    )
    decided = hands_out(owner, seen, NOW)
    told = tuple(gives(r, 2, "10.0.0.0,10.0.0.1") for r in range(2))
    assert decided.actions == (*told, DeletePod("job-2", "uid-2"))
    assert decided.status.renewals == 0


@pytest.mark.parametrize(("replicas", "more"), [(2, ()), (4, (view(3),))], ids=["shrinks", "grows"])
def test_a_change_of_size_restarts_all_ranks_if_membership_is_fixed(
    replicas: int, more: tuple[Pod, ...]
) -> None:
    owner = scaled(running(restart={"scope": "Job"}), replicas)
    decided, _ = then(owner, observed(*(listed(rank) for rank in range(3)), *more))
    assert says(decided)["AddressesReady"] == ("False", "Scaled")
    assert decided.status.last_renewal is not None
    # Ranks that leave are included, because a scale-up may need them.
    assert decided.status.last_renewal.ranks == "0-2"
    assert decided.status.last_renewal.message == f"replicas changed from 3 to {replicas}"


def test_a_job_succeeds_without_ranks_that_never_joined() -> None:
    owner = scaled(running(), 4)
    done = [listed(rank, succeeded=True, ready=False) for rank in range(3)]
    assert then(owner, observed(*done, view(3, ip="")))[0].status.phase == "Succeeded"


REFUSALS = {
    RejectionCause.TAKEN: "PodNameTaken",
    RejectionCause.TERMINATING: "WaitingForOldPod",
    RejectionCause.REJECTED: "PodRejected",
    RejectionCause.FORBIDDEN: "PodForbidden",
    RejectionCause.UNAVAILABLE: "ApiUnavailable",
}


@pytest.mark.parametrize(("why", "reason"), REFUSALS.items(), ids=REFUSALS.values())
def test_a_rejected_pod_is_reported_and_retried_after_its_back_off(
    why: RejectionCause, reason: str
) -> None:
    rejections = {"pod/job-1": ApiRejection(why, "no, because", later(7))}
    seen = observed(view(0), view(2), rejections=rejections)
    decided, _ = then(job(), seen)
    assert created(decided) == []
    assert says(decided)["PodsCreated"] == ("False", reason)
    assert "rank 1: no, because" in decided.status.conditions[0].message
    assert decided.requeue_after <= 7
    assert created(plan(job(), seen, later(7))) == [1]


def test_a_pod_that_is_lost_repeatedly_is_recreated_with_back_off() -> None:
    seen = observed(view(0), view(2), creations={"job-1": Creation(4, NOW)})
    assert created(plan(job(), seen, later(7.9))) == []
    assert created(plan(job(), seen, later(8))) == [1]
    assert created(plan(job(), observed(creations={"job-1": Creation(50, NOW)}), later(601))) == [
        0,
        1,
        2,
    ]


def test_a_changed_template_is_reported_and_pods_stay() -> None:
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
    assert plan(leaving, observed(), NOW) == Plan(leaving.status, requeue_after=3.0)
    assert plan(leaving, observed(), later(9)).actions == ()


def test_a_back_off_of_a_day_does_not_overflow() -> None:
    """2.0 ** 1024 raises: a pod that is evicted once a minute gets there within 18 hours."""
    seen = observed(view(0), view(2), creations={"job-1": Creation(5000, NOW)})
    assert created(plan(job(), seen, later(59))) == []
    assert created(plan(job(), seen, later(60))) == [1]


def test_the_start_time_is_when_the_job_was_first_seen() -> None:
    first, owner = then(job(), observed())
    again, _ = then(owner, observed(view(0)), 77)
    assert first.status.start_time == again.status.start_time == "2026-05-04T12:00:00Z"


@pytest.mark.parametrize(
    ("age", "seconds"),
    [(0, 4), (15, 4), (100, 25), (240, 60), (100_000, 60)],
    ids=lambda value: f"{value}s",
)
def test_a_job_that_waits_for_longer_is_reconciled_more_rarely(age: float, seconds: float) -> None:
    _, owner = then(job(), observed())
    assert (
        plan(owner, observed(view(0, ip=""), view(1), view(2)), later(age)).requeue_after == seconds
    )


def test_a_rejected_service_is_retried_after_its_back_off() -> None:
    seen = observed(
        *(listed(rank) for rank in range(3)),
        services=(),
        rejections={"service/job": ApiRejection(RejectionCause.TAKEN, "no", later(15))},
    )
    assert plan(running(), seen, later(14.9)).actions == ()
    assert plan(running(), seen, later(15)).actions == (CreateShared(service.headless_manifests),)


def test_the_status_counts_only_pods_that_are_not_being_deleted() -> None:
    decided, _ = then(
        running(), observed(listed(0), listed(1, ready=False), listed(2, deleting=True))
    )
    assert (decided.status.replicas, decided.status.ready_replicas) == (2, 1)
    assert decided.status.selector == "diengine.opendilab.org/job=job"


def test_a_paused_job_is_observed_without_actions() -> None:
    assert plan(paused(job()), observed(), NOW).actions == ()
    seen = observed(listed(0), listed(1, failures=1, last_end=TERMINATED), listed(2, deleting=True))
    decided, owner = then(paused(running()), seen)
    assert (decided.actions, decided.requeue_after) == ((), 300)
    assert says(decided)["Paused"] == ("True", "Annotated")
    assert (decided.status.restarts, decided.status.renewals) == (1, 0)
    resumed, owner = then(paused(owner, None), seen)
    assert says(resumed)["Paused"] == ("False", "Resumed")
    assert resumed.status.renewals == 1
    assert created(plan(owner, observed(*list(seen.pods.values())[:2]), NOW)) == [2]
