"""A task with a runtime of its own (tasks[].runtime: torch) restarts as a group, and only that
task.
"""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.parse import parse_job
from dijob.api.status import Renewal
from dijob.core.actions import CreatePod, DeletePod, PublishAddresses
from dijob.core.members import gang_of
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Pod
from dijob.core.plan import Plan
from samples.builders import (
    NOW,
    conditions_of,
    later,
    listed,
    observed,
    plan,
    says,
    stored,
    tasks_body,
    then,
    view,
)

STAMP = "2026-05-04T11:59:5{}Z".format
DONE: dict[str, Any] = {
    "succeeded": True,
    "all_ended": True,
    "phase": "Succeeded",
    "ready": False,
    "started": "",
    "ended": STAMP(5),
}
CRASHED: dict[str, Any] = {"ready": False, "failures": 1, "ended": STAMP(7)}
CRASHED |= {"last_end": ContainerEnding(3, 0, "Error", "boom", STAMP(7))}
# The program runs long enough for an in-place restart.
CALM: dict[str, Any] = {"restartable": True}
IPS = ",".join(f"10.0.0.{rank}" for rank in range(5))


def running(*runtimes: str, **spec: Any) -> DIJob:
    """Return a running job: two learners (0, 1), an evaluator (2) and two collectors (3, 4). The
    `runtimes` are those of the tasks, by default torch for the learners.
    """
    body = tasks_body(2, 1, 2, **spec)
    for task, runtime in zip(body["spec"]["tasks"], runtimes or ("torch",), strict=False):
        task |= {"runtime": runtime} if runtime else {}
    owner = parse_job(body)
    owner = stored(owner, plan(owner, observed(*pods(owner)), NOW))
    assert owner.status.phase == "Running"
    return owner


def pods(owner: DIJob, **changes: dict[str, Any] | None) -> list[Pod]:
    """Return the five pods. `changes` are fields by rank, as r0={...}; None: the pod is gone."""
    fields = {rank: changes.get(f"r{rank}", {}) for rank in range(5)}
    gang = gang_of(owner)
    return [
        listed(rank, owner, ips=IPS, name=gang.member(rank).name, **CALM, **own)
        for rank, own in fields.items()
        if own is not None
    ]


def renewal_of(decided: Plan) -> Renewal:
    assert decided.status.last_renewal is not None
    return decided.status.last_renewal


def touched(decided: Plan) -> tuple[set[str], set[int]]:
    """Return the pods that are deleted, and the ranks whose pods are created."""
    gone = {action.name for action in decided.actions if isinstance(action, DeletePod)}
    made = {action.member.rank for action in decided.actions if isinstance(action, CreatePod)}
    return gone, made


LOSSES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a learner in a mesh": ({}, {"r1": None}, "0-4"),
    "a learner in a star, with the hub": ({"topology": "star"}, {"r1": None}, "0-4"),
    "a learner without connections": ({"topology": "alone"}, {"r1": None}, "0-1"),
    "a learner with names": ({"addressing": "Hostname"}, {"r1": None}, "0-1"),
    "a learner with redis": ({"messageQueue": {"type": "redis", "host": "r"}}, {"r0": None}, "0-1"),
    "a collector in a mesh": ({}, {"r3": None}, "3-4"),
    "a collector without connections": ({"topology": "alone"}, {"r3": None}, "3"),
    "a collector, all restart": ({"restart": {"scope": "Job"}}, {"r3": None}, "0-4"),
    "a learner that is evicted": (
        {"topology": "alone"},
        {"r0": {"phase": "Failed", "ready": False, "disrupted": True}},
        "0-1",
    ),
}


@pytest.mark.parametrize(("spec", "lost", "ranks"), LOSSES.values(), ids=LOSSES)
def test_a_loss_restarts_the_group_and_the_ranks_that_connect_to_it(
    spec: dict[str, Any], lost: dict[str, Any], ranks: str
) -> None:
    owner = running(**spec)
    decided = plan(owner, observed(*pods(owner, **lost)), later(1))
    assert renewal_of(decided).ranks == ranks
    assert decided.status.restarts == 0


def test_learners_get_new_pods_and_collectors_restart_in_their_pods() -> None:
    owner = running()
    seen = pods(owner, r1=None)
    owner = stored(owner, plan(owner, observed(*seen), later(1)))
    gone, made = touched(plan(owner, observed(*seen), later(2)))
    assert (gone, made) == ({"job-learner-0"}, {1})
    others = [pod for pod in seen if pod.rank > 1]
    new = [
        view(rank, owner, uid=f"new-{rank}", ip=f"10.0.1.{rank}", name=f"job-learner-{rank}")
        for rank in (0, 1)
    ]
    owner = stored(owner, plan(owner, observed(*new, *others), later(3)))
    assert owner.status.list_number == 2
    published = plan(owner, observed(*new, *others), later(4)).actions
    asked = {one.name: one for one in published if isinstance(one, PublishAddresses)}
    renew_from = {name: one.copy.renew_from for name, one in asked.items()}
    assert renew_from == {
        "job-learner-0": 0,
        "job-learner-1": 0,
        "job-evaluator-0": 2,
        "job-collector-0": 2,
        "job-collector-1": 2,
    }


FAILURES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[str, int]]] = {
    "a learner": ({}, {"r1": CRASHED}, ("0-1", 1)),
    "both learners at once": ({}, {"r0": CRASHED, "r1": CRASHED}, ("0-1", 1)),
    "a learner and a collector": ({}, {"r1": CRASHED, "r4": CRASHED}, ("0-1", 2)),
    "a collector": ({}, {"r4": CRASHED}, ("", 1)),
    "a learner that may restart alone": (
        {"failurePolicy": {"rules": [{"action": "Restart", "task": "learner"}]}},
        {"r1": CRASHED},
        ("", 1),
    ),
    "a learner whose failure restarts all": (
        {"failurePolicy": {"rules": [{"action": "RestartJob", "task": "learner"}]}},
        {"r1": CRASHED},
        ("0-4", 1),
    ),
    "a learner, all restart": ({"restart": {"scope": "Job"}}, {"r1": CRASHED}, ("0-4", 1)),
}


@pytest.mark.parametrize(("spec", "failed", "expected"), FAILURES.values(), ids=FAILURES)
def test_a_failure_restarts_its_group_and_counts_once(
    spec: dict[str, Any], failed: dict[str, Any], expected: tuple[str, int]
) -> None:
    owner = running(topology="alone", **spec)
    status = plan(owner, observed(*pods(owner, **failed)), later(1)).status
    ranks = status.last_renewal.ranks if status.last_renewal else ""
    assert (ranks, status.restarts) == expected


def test_the_message_names_the_failure_and_the_runtime() -> None:
    owner = running(topology="alone")
    decided = plan(owner, observed(*pods(owner, r1=CRASHED)), later(1))
    assert renewal_of(decided).message == (
        "rank 1 exited 3: boom, and runtime: torch restarts the whole task"
    )
    peers = conditions_of(decided)["PeersReady"].message.removeprefix(renewal_of(decided).message)
    assert peers == "; ranks 0-1 restart, and the other ranks keep running"


def test_a_learner_that_has_succeeded_restarts_with_the_other() -> None:
    owner = running(topology="alone")
    owner = stored(owner, plan(owner, observed(*pods(owner, r0=DONE, r2=DONE)), NOW))
    assert owner.status.succeeded_ranks == "0,2"
    seen = observed(*pods(owner, r0=DONE, r1=CRASHED, r2=DONE))
    lost = plan(owner, seen, later(1))
    assert (renewal_of(lost).ranks, lost.status.succeeded_ranks) == ("0-1", "2")
    assert renewal_of(lost).message.endswith("; rank 0, which had succeeded, restarts as well")
    again = plan(stored(owner, lost), seen, later(2))
    assert again.status.succeeded_ranks == "2"
    assert touched(again)[0] == {"job-learner-0", "job-learner-1"}


def test_a_learner_that_crashes_after_the_success_of_another_is_not_left_alone() -> None:
    owner = running(
        topology="alone", failurePolicy={"rules": [{"action": "Ignore", "task": "learner"}]}
    )
    assert not plan(owner, observed(*pods(owner, r1=CRASHED)), NOW).status.renewals
    owner = stored(owner, plan(owner, observed(*pods(owner, r0=DONE)), NOW))
    lost = plan(owner, observed(*pods(owner, r0=DONE, r1=CRASHED)), later(1))
    assert renewal_of(lost).message.startswith("rank 1: it cannot restart without rank 0")
    assert renewal_of(lost).ranks == "0-1"


KEPT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "both learners, and a collector is lost": ({}, {"r0": DONE, "r1": DONE, "r3": None}, "0-1"),
    "a learner, and a collector is lost": ({}, {"r0": DONE, "r3": None}, "0"),
    "a collector, and a learner is lost": ({}, {"r3": DONE, "r0": None}, "3"),
}


@pytest.mark.parametrize(("spec", "seen", "succeeded"), KEPT.values(), ids=KEPT)
def test_a_success_outside_of_the_group_lasts(
    spec: dict[str, Any], seen: dict[str, Any], succeeded: str
) -> None:
    owner = running(topology="alone", **spec)
    done = {rank: fields for rank, fields in seen.items() if fields}
    owner = stored(owner, plan(owner, observed(*pods(owner, **done)), NOW))
    assert owner.status.succeeded_ranks == succeeded
    lost = plan(owner, observed(*pods(owner, **seen)), later(1))
    assert lost.status.renewals == 1
    assert lost.status.succeeded_ranks == succeeded
    again = plan(stored(owner, lost), observed(*pods(owner, **seen)), later(2))
    assert again.status.succeeded_ranks == succeeded


def test_a_learner_that_exits_while_a_collector_is_replaced_has_succeeded() -> None:
    """Its program runs with the stale list, which is correct for it."""
    owner = running()
    owner = stored(owner, plan(owner, observed(*pods(owner, r4=None)), later(1)))
    assert renewal_of(plan(owner, observed(*pods(owner, r4=None)), later(1))).ranks == "4"
    decided = plan(owner, observed(*pods(owner, r0=DONE, r4=None)), later(2))
    assert decided.status.succeeded_ranks == "0"


@pytest.mark.parametrize(
    ("done", "succeeded"), [(("r0",), ""), (("r0", "r1"), "0-1"), (("r2", "r0"), "2")], ids=str
)
def test_a_suspension_discards_the_successes_of_an_incomplete_group(
    done: tuple[str, ...], succeeded: str
) -> None:
    owner = running(topology="alone")
    seen = observed(*pods(owner, **dict.fromkeys(done, DONE)))
    owner = stored(owner, plan(owner, seen, NOW))
    _, suspended = then(owner, seen, suspend=True)
    assert suspended.status.suspend_time
    assert suspended.status.succeeded_ranks == succeeded
    _, still = then(suspended, seen, 1)
    assert still.status.succeeded_ranks == succeeded


def grown(owner: DIJob, collectors: int) -> DIJob:
    """Return the job with this size of its last task."""
    tasks = owner.spec.tasks or ()
    last = tasks[-1].model_copy(update={"replicas": collectors})
    spec = owner.spec.model_copy(update={"tasks": (*tasks[:-1], last), "replicas": None})
    return DIJob(metadata=owner.metadata, spec=spec, status=owner.status)


@pytest.mark.parametrize(
    ("runtimes", "ranks"),
    [(("torch",), None), (("", "", "torch"), "3-4"), (("torch", "", "torch"), "3-4")],
    ids=["learners", "collectors", "each of both"],
)
def test_only_a_group_that_grows_restarts(runtimes: tuple[str, ...], ranks: str | None) -> None:
    owner = running(*runtimes, topology="alone")
    bigger = grown(owner, 3)
    seen = observed(*pods(owner), view(5, bigger))
    status = plan(bigger, seen, later(60)).status
    assert (status.last_renewal.ranks if status.last_renewal else None) == ranks
    assert status.list_number == (2 if ranks is None else 1)


def test_a_group_does_not_grow_after_a_success() -> None:
    owner = running("", "", "torch", topology="alone")
    owner = stored(owner, plan(owner, observed(*pods(owner, r3=DONE)), NOW))
    bigger = grown(owner, 3)
    status = plan(bigger, observed(*pods(owner, r3=DONE), view(5, bigger)), later(60)).status
    assert (status.list_number, status.renewals) == (1, 0)


def test_collectors_join_after_the_success_of_a_learner() -> None:
    owner = running(topology="alone")
    owner = stored(owner, plan(owner, observed(*pods(owner, r0=DONE)), NOW))
    bigger = grown(owner, 3)
    status = plan(bigger, observed(*pods(owner, r0=DONE), view(5, bigger)), later(60)).status
    assert (status.list_number, status.renewals) == (2, 0)


def test_the_success_policy_applies_to_a_group() -> None:
    owner = running(successPolicy="learner")
    decided = plan(owner, observed(*pods(owner, r0=DONE, r1=DONE)), later(1))
    assert says(decided)["Succeeded"] == ("True", "SuccessPolicy")


def test_two_tasks_are_two_groups() -> None:
    owner = running("torch", "", "torch")
    assert [range(group.start, min(group.stop, 5)) for group in gang_of(owner).groups] == [
        range(2),
        range(3, 5),
    ]
    alone = running("torch", "", "torch", topology="alone")
    decided = plan(alone, observed(*pods(alone, r0=None, r4=None)), later(1))
    assert renewal_of(decided).ranks == "0-1,3-4"


@pytest.mark.parametrize("runtimes", [("ditask",), ("",)], ids=["ditask", "none"])
def test_tasks_without_torch_are_no_groups(runtimes: tuple[str, ...]) -> None:
    assert gang_of(running(*runtimes)).groups == ()


@pytest.mark.parametrize(
    ("done", "lost"),
    [({"r4": DONE}, {"r3": None}), ({"r3": DONE}, {"r4": None}), ({}, {"r4": None})],
    ids=["the last rank has succeeded", "the other rank has succeeded", "no rank has succeeded"],
)
def test_a_second_loss_restarts_a_group_that_the_first_loss_did_not_touch(
    done: dict[str, Any], lost: dict[str, Any]
) -> None:
    owner = running("", "", "torch", topology="alone")
    owner = stored(owner, plan(owner, observed(*pods(owner, **done)), NOW))
    first = plan(owner, observed(*pods(owner, r0=None, **done)), later(1))
    assert renewal_of(first).ranks == "0"
    second = plan(stored(owner, first), observed(*pods(owner, r0=None, **done, **lost)), later(2))
    assert (renewal_of(second).ranks, second.status.succeeded_ranks) == ("0,3-4", "")


def test_no_rank_joins_a_group_that_has_succeeded_while_another_rank_is_replaced() -> None:
    owner = running("", "", "torch", topology="alone")
    done = {"r3": DONE, "r4": DONE}
    owner = stored(owner, plan(owner, observed(*pods(owner, **done)), NOW))
    owner = grown(owner, 4)
    seen = pods(owner, r0=None, **done)
    late = [view(rank, owner, name=f"job-collector-{rank - 3}") for rank in (5, 6)]
    owner = stored(owner, plan(owner, observed(*seen, *late), later(1)))
    assert owner.status.succeeded_ranks == "3-4"
    new = view(0, owner, uid="new-0", ip="10.0.1.0", name="job-learner-0")
    decided = plan(owner, observed(new, *seen, *late), later(60))
    assert decided.status.list_number == 2
    assert decided.status.address_list is not None
    assert decided.status.address_list.size == 5


def test_a_group_that_was_enlarged_during_a_suspension_starts_with_all_ranks() -> None:
    owner = running("", "", "torch", topology="alone")
    seen = observed(*pods(owner, r3=DONE, r4=DONE))
    owner = stored(owner, plan(owner, seen, NOW))
    _, owner = then(owner, seen, suspend=True)
    _, owner = then(grown(owner, 3), observed(), 1)
    assert owner.status.succeeded_ranks == "3-4"
    _, owner = then(owner, observed(), 2, suspend=False)
    assert not owner.status.suspend_time
    _, owner = then(owner, observed(), 3)
    assert owner.status.succeeded_ranks == ""


@pytest.mark.parametrize(
    ("size", "ranks"), [(1, "0,3-4"), (2, "0"), (3, "0,3-4")], ids=["shrinks", "stays", "grows"]
)
def test_a_group_whose_size_changes_during_another_restart_restarts_too(
    size: int, ranks: str
) -> None:
    owner = running("", "", "torch", topology="alone")
    owner = stored(owner, plan(owner, observed(*pods(owner, r0=None)), later(1)))
    owner = grown(owner, size)
    new = view(0, owner, uid="new-0", ip="10.0.1.0", name="job-learner-0")
    late = [view(5, owner, name="job-collector-2")] * (size > 2)
    decided = plan(owner, observed(new, *pods(owner, r0=None), *late), later(60))
    assert renewal_of(decided).ranks == ranks
    assert decided.status.renewals == 1
    assert decided.status.list_number == (2 if size == 2 else 1)


def test_a_new_rank_that_fails_before_it_joins_does_not_restart_its_group() -> None:
    owner = grown(running("", "", "torch", topology="alone"), 3)
    failed: dict[str, Any] = {"failures": 1, "init_failures": 1, "ready": False, "ip": ""}
    failed |= {"last_end": ContainerEnding(3, 0, "Error", "boom", STAMP(7))}
    late = view(5, owner, name="job-collector-2", **failed)
    status = plan(owner, observed(*pods(owner), late), later(1)).status
    assert (status.renewals, status.restarts) == (0, 1)
