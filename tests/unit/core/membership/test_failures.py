"""Failure accounting: what counts against backoffLimit, which ranks have succeeded, and which
failure was the first.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.parts import FailureRule
from dijob.api.status import Charge, Renewal, Status, format_time
from dijob.core.membership import failures
from dijob.core.membership.failures import FailureAccount
from dijob.core.membership.policy import Policy
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Observed, Pod
from dijob.names import RestartScope, Runtime
from samples.builders import NOW, gang, given, listed, observed, view, world_of

EMPTY = failures.read_ledger(Status(), gang())


def with_failures(
    before: FailureAccount, seen: Observed, status: Status | None = None
) -> FailureAccount:
    policy = Policy(gang())
    world = world_of(gang(), seen, before.into(status or Status()), NOW)
    done = failures.with_successes(before, world, policy)
    return failures.with_failures(done, replace(world, succeeded=done.succeeded), policy, NOW)


def crashed(rank: int = 1, failures: int = 1, **fields: Any) -> Pod:
    return listed(
        rank,
        **{
            "ready": False,
            "failures": failures,
            "last_end": ContainerEnding(1, 0, "Error", "boom"),
            **fields,
        },
    )


OTHERS = (listed(0), listed(2))
# After a reboot of the node.
UNSEEN = ContainerEnding(255, 0, "Unknown", "")
DEAD = Status(list_number=1, last_renewal=Renewal(list_number=1))

CHARGED: dict[str, tuple[Pod, Status, int]] = {
    "a crash": (crashed(), Status(), 1),
    "several at once": (crashed(failures=3), Status(), 3),
    "before any list": (view(1, failures=2), Status(), 2),
    "a Failed pod": (crashed(phase="Failed"), Status(), 1),
    "deleted by hand": (crashed(deleting=True), Status(), 0),
    "disrupted": (crashed(disrupted=True), Status(), 0),
    "its sandbox died": (crashed(sandbox=False), Status(), 0),
    "its sandbox was re-created": (crashed(failures=2, ip="10.0.0.9"), Status(), 0),
    "its end was not observed": (crashed(last_end=UNSEEN), Status(), 0),
    "its end was not observed, and its address is unknown": (
        view(1, failures=1, last_end=UNSEEN),
        Status(),
        0,
    ),
    "its end was not observed, in a Failed pod": (
        crashed(phase="Failed", last_end=UNSEEN),
        Status(),
        1,
    ),
    "its list is stale, and it will be deleted": (crashed(), DEAD, 0),
    "a new pod during a rendezvous": (view(1, failures=1), DEAD, 1),
}


@pytest.mark.parametrize(("pod", "status", "charge"), CHARGED.values(), ids=CHARGED)
def test_which_failures_count(pod: Pod, status: Status, charge: int) -> None:
    after = with_failures(EMPTY, observed(pod, *OTHERS), status)
    assert after.restarts == charge
    assert (after.first_failure is not None) is (charge > 0)


def test_a_gang_restart_counts_once_for_the_rank_that_failed_first() -> None:
    """The failure of rank 1 ends the other programs within a second or two, and one reconciliation
    may see all of it.
    """
    early, late = (
        ContainerEnding(1, 0, "Error", "boom", f"2026-05-04T11:59:5{second}Z") for second in (7, 8)
    )
    seen = observed(
        crashed(0, failures=2, last_end=late),
        crashed(1, last_end=early),
        crashed(2, last_end=early),
    )
    torch = Policy(gang(runtime=Runtime.TORCH, scope=RestartScope.JOB))
    after = failures.with_failures(EMPTY, world_of(gang(), seen, Status(), NOW), torch, NOW)
    assert (after.restarts, list(after.new)) == (1, [1, 2, 0])
    assert after.first_failure is not None
    assert after.first_failure.rank == 1
    assert {rank: charge.failures for rank, charge in after.charges.items()} == {0: 2, 1: 1, 2: 1}
    # Each failure is judged once, so the next reconciliation counts none of them.
    assert (
        failures.with_failures(
            after, world_of(gang(), seen, after.into(Status()), NOW), torch, NOW
        ).restarts
        == 1
    )


def test_a_failure_that_restarts_all_absorbs_simultaneous_failures() -> None:
    """The result is the same if the others are observed later, since these ranks restart by
    then.
    """
    rule = FailureRule.model_validate({"action": "RestartJob", "onExitCodes": {"values": [42]}})
    one = crashed(2, last_end=ContainerEnding(42, 0, "Error", ""))
    mixed = observed(listed(0), crashed(1), one)
    assert (
        failures.with_failures(
            EMPTY, world_of(gang(), mixed, Status(), NOW), Policy(gang(), (rule,)), NOW
        ).restarts
        == 1
    )
    # Before any rank has started there is nothing to restart: each starts again on its own.
    unlisted = observed(view(0), view(1, failures=1), replace(one, copy=given(0, "")))
    assert (
        failures.with_failures(
            EMPTY, world_of(gang(), unlisted, Status(), NOW), Policy(gang(), (rule,)), NOW
        ).restarts
        == 2
    )


def test_no_failure_counts_twice() -> None:
    once = with_failures(EMPTY, observed(crashed(failures=2), *OTHERS))
    assert with_failures(once, observed(crashed(failures=2), *OTHERS)) == once
    assert with_failures(once, observed(crashed(failures=3), *OTHERS)).restarts == 3


def test_an_excused_failure_does_not_count_later() -> None:
    """The reconciliation that sees the new address records the loss. In the next one nothing shows
    that the address has changed.
    """
    free = with_failures(EMPTY, observed(crashed(ip="10.0.0.9"), *OTHERS))
    assert with_failures(free, observed(crashed(ip="10.0.0.9"), *OTHERS), DEAD).restarts == 0
    assert free.charges[1].restarts == 1


def test_a_new_pod_of_a_rank_starts_with_a_new_count() -> None:
    once = with_failures(EMPTY, observed(crashed(failures=2), *OTHERS))
    again = with_failures(once, observed(crashed(failures=1, uid="new"), *OTHERS))
    assert again.restarts == 3
    assert again.charges == {1: Charge(rank=1, uid="new", restarts=1, failures=1)}


def test_a_smaller_total_does_not_reduce_the_count() -> None:
    """The failures of an init container are not part of the total once it has succeeded."""
    once = with_failures(EMPTY, observed(crashed(failures=2), *OTHERS))
    assert with_failures(once, observed(crashed(failures=0), *OTHERS)).restarts == 2


def test_a_success_stays_when_the_pod_is_deleted() -> None:
    once = with_failures(EMPTY, observed(listed(1, succeeded=True), *OTHERS))
    assert with_failures(once, observed(*OTHERS)).succeeded == {1}


def test_the_first_failure_stays_the_first() -> None:
    once = with_failures(EMPTY, observed(crashed(), *OTHERS))
    then = with_failures(once, observed(crashed(), crashed(2), listed(0)))
    assert then.restarts == 2
    assert then.first_failure == once.first_failure
    first = once.first_failure
    assert first is not None
    assert (first.rank, first.pod, first.node, first.exit_code, first.signal) == (
        1,
        "job-1",
        "node-a",
        1,
        None,
    )
    assert (first.reason, first.message, first.time) == ("Error", "boom", "2026-05-04T12:00:00Z")


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"last_end": ContainerEnding(137, 9, "OOMKilled", "")}, "OOMKilled", ""),
        (
            {"last_end": ContainerEnding(137, 9, "Error", ""), "phase": "Failed"},
            "Error",
            "too much",
        ),
        ({"last_end": None, "phase": "Failed"}, "Failed", "too much"),
        (
            {"last_end": ContainerEnding(1, 0, "Error", "x" * 5000)},
            "Error",
            "x" * failures.MESSAGE_LIMIT,
        ),
    ],
    ids=["kubelet", "whole-pod", "no-container", "long"],
)
def test_the_first_failure_has_all_known_details(
    fields: dict[str, Any], reason: str, message: str
) -> None:
    first = with_failures(
        EMPTY, observed(crashed(complaint="too much", **fields), *OTHERS)
    ).first_failure
    assert first is not None
    assert (first.reason, first.message) == (reason, message)


def test_the_ledger_survives_a_round_trip_through_the_status() -> None:
    made = with_failures(
        EMPTY, observed(crashed(), listed(0, succeeded=True), listed(2, succeeded=True))
    )
    status = made.into(Status(list_number=1))
    assert (status.succeeded_ranks, status.restarts, status.list_number) == ("0,2", 1, 1)
    assert (
        failures.read_ledger(
            Status.model_validate_json(status.model_dump_json(by_alias=True)), gang()
        )
        == made
    )


def test_times_have_the_format_of_kubernetes() -> None:
    assert format_time(NOW) == "2026-05-04T12:00:00Z"
