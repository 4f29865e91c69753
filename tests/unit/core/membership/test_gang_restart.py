"""Gang restart (runtime torch and similar): ranks that have succeeded restart when another rank
must.
"""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.core.actions import CreatePod, DeletePod
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
    running,
    says,
    stored,
    then,
    view,
)

STAMP = "2026-05-04T11:59:5{}Z".format
# Rank 0 has exited 0.
DONE: dict[str, Any] = {
    "succeeded": True,
    "all_ended": True,
    "phase": "Succeeded",
    "ready": False,
    "started": "",
    "ended": STAMP(5),
}
FAILED: dict[str, Any] = {"phase": "Failed", "ready": False, "started": "", "failures": 1}
FAILED |= {"last_end": ContainerEnding(1, 0, "Error", "boom", STAMP(7)), "ended": STAMP(7)}
LOSSES: dict[str, dict[str, Any] | None] = {
    "it fails": FAILED,
    "it crashes in its pod": {**FAILED, "phase": "Running"},
    "it is evicted": {**FAILED, "disrupted": True},
    "its pod is deleted": {"deleting": True},
    "its pod is lost": None,
    "its sandbox is re-created": {"ip": "10.0.0.9"},
}


def torch(**spec: Any) -> DIJob:
    return running(runtime="torch", **spec)


def pods(owner: DIJob, one: dict[str, Any] | None, done: dict[str, Any] | None) -> list[Pod]:
    """Return three pods: rank 0 as `done` says, rank 1 as `one` says (None: lost), and rank 2
    running.
    """
    parts = {0: done, 1: one, 2: {}}
    return [listed(rank, owner, **fields) for rank, fields in parts.items() if fields is not None]


def succeeded_first(owner: DIJob, done: dict[str, Any] | None = None) -> DIJob:
    """Return the job after the success of rank 0 was stored."""
    owner = stored(owner, plan(owner, observed(*pods(owner, {}, done or DONE)), NOW))
    assert owner.status.succeeded_ranks == "0"
    return owner


def touched(decided: Plan) -> tuple[set[str], set[int]]:
    """Return the pods that are deleted, and the ranks whose pods are created."""
    gone = {action.name for action in decided.actions if isinstance(action, DeletePod)}
    made = {action.member.rank for action in decided.actions if isinstance(action, CreatePod)}
    return gone, made


@pytest.mark.parametrize("one", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("stored_before", [True, False], ids=["it was stored", "seen at once"])
def test_a_succeeded_rank_restarts_with_the_lost_one(
    one: dict[str, Any] | None, stored_before: bool
) -> None:
    owner = succeeded_first(torch()) if stored_before else torch()
    lost = plan(owner, observed(*pods(owner, one, DONE)), later(1))
    renewal = lost.status.last_renewal
    assert renewal is not None
    assert (lost.actions, renewal.ranks, lost.status.succeeded_ranks) == ((), "0-2", "")
    assert renewal.message.endswith("; rank 0, which had succeeded, restarts as well")
    peers = conditions_of(lost)["PeersReady"].message
    assert peers == f"{renewal.message}; all ranks restart"
    # The old pod of rank 0 still shows its success and uses the name.
    owner = stored(owner, lost)
    gone, made = touched(again := plan(owner, observed(*pods(owner, one, DONE)), later(2)))
    assert {"job-0", "job-2"} <= gone
    assert again.status.succeeded_ranks == ""
    assert made <= {1}


def test_the_deleted_pod_of_a_succeeded_rank_is_recreated() -> None:
    owner = succeeded_first(torch())
    lost = plan(owner, observed(*pods(owner, FAILED, None)), later(1))
    gone, made = touched(plan(stored(owner, lost), observed(), later(2)))
    assert (gone, made) == (set(), {0, 1, 2})


def test_the_next_list_has_all_ranks() -> None:
    owner = succeeded_first(torch())
    owner = stored(owner, plan(owner, observed(*pods(owner, FAILED, DONE)), later(1)))
    new = observed(*(view(rank, owner, uid=f"new-{rank}") for rank in range(3)))
    proof = plan(owner, new, later(2)).status.address_list
    assert proof is not None
    assert (proof.size, proof.finished) == (3, "")


def test_a_success_under_a_stale_list_does_not_count() -> None:
    """The other ranks would wait for it in their rendezvous."""
    owner = torch()
    owner = stored(owner, plan(owner, observed(*pods(owner, FAILED, {})), NOW))
    decided = plan(owner, observed(*pods(owner, FAILED, DONE)), later(1))
    assert decided.status.succeeded_ranks == ""
    assert "job-0" in touched(decided)[0]


def test_the_pod_of_a_succeeded_rank_is_deleted_even_without_its_annotations() -> None:
    owner = succeeded_first(torch())
    owner = stored(owner, plan(owner, observed(*pods(owner, FAILED, DONE)), later(1)))
    bare = [listed(0, owner, ips="", number=0, **DONE), *pods(owner, {"deleting": True}, None)]
    decided = plan(owner, observed(*bare), later(2))
    assert decided.status.succeeded_ranks == ""
    assert "job-0" in touched(decided)[0]


def test_a_success_under_the_next_list_counts() -> None:
    owner = torch()
    owner = stored(owner, plan(owner, observed(*pods(owner, FAILED, {})), NOW))
    new = [view(rank, owner, uid=f"new-{rank}") for rank in range(3)]
    owner = stored(owner, plan(owner, observed(*new), later(1)))
    assert owner.status.list_number == 2
    done = [listed(0, owner, number=2, uid="new-0", **DONE)]
    done += [listed(rank, owner, number=2, uid=f"new-{rank}") for rank in (1, 2)]
    assert plan(owner, observed(*done), later(2)).status.succeeded_ranks == "0"


@pytest.mark.parametrize(("limit", "charged", "failed"), [(3, 1, False), (0, 1, True)])
def test_the_failure_counts_as_any_other(limit: int, charged: int, failed: bool) -> None:
    owner = succeeded_first(torch(backoffLimit=limit))
    decided = plan(owner, observed(*pods(owner, FAILED, DONE)), later(1))
    assert decided.status.restarts == charged
    assert ("Failed" in says(decided)) is failed


def test_a_disruption_does_not_count() -> None:
    owner = succeeded_first(torch(backoffLimit=0))
    decided = plan(owner, observed(*pods(owner, {"deleting": True}, DONE)), later(1))
    assert (decided.status.restarts, decided.status.succeeded_ranks) == (0, "")


def test_the_job_ends_with_rank_0_if_success_policy_says_so() -> None:
    owner = torch(successPolicy="Rank0")
    decided = plan(owner, observed(*pods(owner, FAILED, DONE)), later(1))
    assert says(decided)["Succeeded"] == ("True", "SuccessPolicy")
    assert (decided.status.renewals, decided.status.succeeded_ranks) == (0, "0")


@pytest.mark.parametrize(
    "spec",
    [
        {"failurePolicy": {"rules": [{"action": "Ignore"}]}},
        {"failurePolicy": {"rules": [{"action": "Restart"}]}},
        {"preemptible": True},
    ],
    ids=str,
)
def test_no_rank_restarts_alone_after_a_success(
    spec: dict[str, Any],
) -> None:
    """While all ranks run, a rule may restart a rank in its pod, because the others are there."""
    owner = torch(**spec)
    asked = {
        **FAILED,
        "phase": "Running",
        "last_end": ContainerEnding(143, 0, "Error", "", STAMP(7)),
    }
    assert plan(owner, observed(*pods(owner, asked, {})), NOW).status.renewals == 0
    lost = plan(succeeded_first(owner), observed(*pods(owner, asked, DONE)), later(1)).status
    assert (lost.renewals, lost.succeeded_ranks) == (1, "")
    assert lost.restarts == (1 if "Restart" in str(spec) else 0)
    assert lost.last_renewal is not None
    assert lost.last_renewal.message.startswith("rank 1: it cannot restart without rank 0")


def test_a_rank_that_restarted_before_the_success_keeps_running() -> None:
    owner = torch(failurePolicy={"rules": [{"action": "Ignore"}]})
    once = {"failures": 1, "restarts": 1, "ended": STAMP(4), "ready": False}
    decided = plan(owner, observed(*pods(owner, once, DONE)), NOW)
    assert (decided.status.renewals, decided.status.succeeded_ranks) == (0, "0")


KEEPS: dict[str, dict[str, Any]] = {
    "programs that take a member back": {},
    "the same, all ranks restart": {"restart": {"scope": "Job"}},
    "torch, with restart scope Pod": {
        "runtime": "torch",
        "restart": {"scope": "Pod"},
    },
}


@pytest.mark.parametrize("spec", KEEPS.values(), ids=KEEPS)
def test_without_gang_restart_a_success_is_final(spec: dict[str, Any]) -> None:
    owner = succeeded_first(running(**spec))
    lost = plan(owner, observed(*pods(owner, None, DONE)), later(1))
    assert lost.status.last_renewal is not None
    assert lost.status.succeeded_ranks == "0"
    assert "succeeded" not in lost.status.last_renewal.message
    again = plan(stored(owner, lost), observed(*pods(owner, None, DONE)), later(2))
    assert again.status.succeeded_ranks == "0"
    assert "job-0" not in touched(again)[0]


def test_a_suspension_discards_the_success() -> None:
    """The others could not start without it when the job is resumed."""
    owner = succeeded_first(torch())
    seen = observed(*pods(owner, {}, DONE))
    _, suspended = then(owner, seen, suspend=True)
    assert suspended.status.suspend_time
    assert suspended.status.succeeded_ranks == ""
    decided, suspended = then(suspended, seen, 1)
    assert touched(decided)[0] == {"job-0", "job-1", "job-2"}
    assert suspended.status.succeeded_ranks == ""
    _, resumed = then(suspended, observed(), 2, suspend=False)
    assert touched(plan(resumed, observed(), later(3)))[1] == {0, 1, 2}


def test_the_job_does_not_grow_after_a_success() -> None:
    """All ranks would repeat their work, and a rank that joins this late is not needed any more."""
    owner = torch(minReplicas=3, maxReplicas=4, replicas=3)
    late = view(3, owner)
    _, grown = then(owner, observed(*pods(owner, {}, {}), late), replicas=4)
    assert (grown.status.renewals, grown.status.list_number) == (1, 1)
    owner = succeeded_first(owner)
    decided, grown = then(owner, observed(*pods(owner, {}, DONE), late), replicas=4)
    assert (grown.status.renewals, grown.status.list_number) == (0, 1)
    ended = [listed(rank, owner, **DONE) for rank in range(3)]
    decided, _ = then(grown, observed(*ended, late), 1)
    assert says(decided)["Succeeded"] == ("True", "AllRanksSucceeded")


def test_a_scale_down_restarts_all_ranks() -> None:
    owner = succeeded_first(torch(minReplicas=2, maxReplicas=4, replicas=3))
    _, shrunk = then(owner, observed(*pods(owner, {}, DONE)), replicas=2)
    renewal = shrunk.status.last_renewal
    assert renewal is not None
    assert (renewal.reason, renewal.ranks, shrunk.status.succeeded_ranks) == ("Scaled", "0-2", "")
