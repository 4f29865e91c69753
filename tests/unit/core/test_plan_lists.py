"""The plan for the peer list: when a list is published, when it is stale, and which kubelets are
reminded of it.
"""

import pytest
from dijob.api.status import format_time
from dijob.core.actions import DeletePod, RemindPod
from dijob.core.observed.views import Pod
from samples.builders import (
    LIST,
    NOW,
    gives,
    hands_out,
    job,
    later,
    listed,
    lists_of,
    observed,
    running,
    says,
    then,
    view,
)


def test_nothing_is_published_before_the_last_address() -> None:
    decided, _ = then(job(), observed(view(0), view(1), view(2, ip="")))
    assert decided.actions == ()
    assert "rank 2" in decided.status.conditions[1].message


def test_the_last_address_publishes_the_list_to_all() -> None:
    decided = hands_out(job(), observed(view(0), view(1), view(2)), NOW)
    assert decided.actions == tuple(gives(r, 1, LIST) for r in range(3))


def test_a_partly_published_list_is_completed_with_the_same_revision() -> None:
    decided, _ = then(job(), observed(listed(0, ready=False), view(1), view(2)))
    assert decided.actions == tuple(gives(r, 1, LIST) for r in (1, 2))


LOSSES = {
    "PodLost": {},
    "PodDeleted": {1: listed(1, deleting=True)},
    "PodFailed": {1: listed(1, phase="Failed", ready=False, disrupted=True)},
    "AddressChanged": {1: listed(1, ip="10.0.0.9")},
    "SandboxLost": {1: listed(1, sandbox=False)},
}


@pytest.mark.parametrize(("reason", "rank_1"), LOSSES.items(), ids=LOSSES)
def test_every_loss_is_stored_before_any_action(reason: str, rank_1: dict[int, Pod]) -> None:
    pods = [listed(0), *rank_1.values(), listed(2)]
    decided, owner = then(running(), observed(*pods))
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    assert says(decided)["AddressesReady"] == ("False", reason)
    assert says(decided)["PeersReady"] == ("False", "Renewing")
    assert says(decided)["Running"] == ("True", "Begun")  # Rank 0 keeps running.
    assert "rank 1" in (decided.status.last_renewal.message if decided.status.last_renewal else "")
    assert decided.status.restarts == 0
    after, _ = then(owner, observed(*pods))
    gone = {action.name for action in after.actions if isinstance(action, DeletePod)}
    assert "job-2" in gone
    assert "job-0" not in gone
    assert after.status.renewals == 1


def test_the_next_list_has_the_next_revision() -> None:
    _, owner = then(running(), observed(listed(0), listed(2)))
    decided = hands_out(
        owner, observed(view(0, uid="n0"), view(1, uid="n1"), view(2, uid="n2")), NOW
    )
    assert {one.number for one in lists_of(decided.actions)} == {2}


def test_a_gate_that_does_not_see_its_list_is_reminded() -> None:
    """The kubelet's volume manager may miss the update. Without a reminder the rank would wait for
    its next periodic sync.
    """
    pods = [listed(0), listed(1, gated=True, ready=False), listed(2)]
    told = {("uid-1", 1): NOW}
    waits, _ = then(running(), observed(*pods, services=frozenset({"job"}), list_seen=told), 3)
    assert (waits.actions, waits.requeue_after) == ((), 1.0)
    late, _ = then(running(), observed(*pods, services=frozenset({"job"}), list_seen=told), 9)
    assert late.actions == (RemindPod("job-1", "uid-1", 1, format_time(later(9))),)
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
