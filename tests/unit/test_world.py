"""The address list in force: which number it has, whether it holds, and what becomes of the pods
when it does not.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.status import Renewal, Status
from dijob.core.addresses import AddressList
from dijob.core.members import compact
from dijob.core.membership.address_list import NOBODY
from dijob.core.membership.gathering import Gathering, is_outdated
from dijob.core.membership.losses import has_moved, loss_of
from dijob.core.membership.world import World
from dijob.core.observed.views import Observed, Pod
from dijob.names import RestartScope, Topology
from dijob.reasons import AddressesReady
from unit.builders import LIST, NOW, changed, gang, listed, observed, view, world_of

ALL = (listed(0), listed(1), listed(2))
FRESH = (view(0), view(1), view(2))


def world(
    seen: Observed, size: int = 3, succeeded: frozenset[int] = frozenset(), **status: Any
) -> World:
    return world_of(
        gang(size=size), seen, Status(succeeded_ranks=compact(succeeded), **status), NOW
    )


def gathering(found: World) -> Gathering:
    return Gathering(found, observed(), 0, NOW)


def without(rank: int, pods: tuple[Pod, ...] = ALL) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if pod.rank != rank)


def instead(pod: Pod, pods: tuple[Pod, ...] = ALL) -> tuple[Pod, ...]:
    return (*without(pod.rank, pods), pod)


@pytest.mark.parametrize(
    ("pods", "status", "number", "in_force"),
    [
        (FRESH, {}, 0, False),
        (ALL, {}, 1, True),
        (ALL, {"list_number": 1}, 1, True),
        (ALL, {"list_number": 3}, 3, True),
        ((listed(0, number=2), listed(1), listed(2)), {"list_number": 1}, 1, True),
        (ALL, {"list_number": 1, "last_renewal": Renewal(list_number=1)}, 1, False),
        (
            instead(listed(0, number=2)),
            {"list_number": 1, "last_renewal": Renewal(list_number=1)},
            1,
            False,
        ),
        (ALL, {"list_number": 2, "last_renewal": Renewal(list_number=1)}, 2, True),
    ],
    ids=[
        "none-yet",
        "not-in-the-status",
        "both-say",
        "status-ahead",
        "a-pod-ahead",
        "dead",
        "dead-a-pod-ahead",
        "next",
    ],
)
def test_the_number_is_what_the_status_says(
    pods: tuple[Pod, ...], status: dict[str, Any], number: int, in_force: bool
) -> None:
    found = world(observed(*pods), **status)
    assert (found.address_list.number, found.in_force) == (number, in_force)


LOSSES: dict[str, tuple[tuple[Pod, ...], str, str]] = {
    "gone": (without(1), "PodLost", "rank 1: its pod is gone"),
    "ending": (
        instead(listed(1, deleting=True)),
        "PodDeleted",
        "rank 1: pod job-1 is being deleted",
    ),
    "failed": (
        instead(listed(1, phase="Failed", complaint="Evicted: low on memory")),
        "PodFailed",
        "rank 1: pod job-1 failed (Evicted: low on memory)",
    ),
    "failed in silence": (instead(listed(1, phase="Failed")), "PodFailed", "no reason given"),
    "main container failed for good": (instead(listed(1, broken=True)), "PodFailed", "rank 1"),
    "sandbox gone": (
        instead(listed(1, sandbox=False)),
        "SandboxLost",
        "rank 1: the sandbox of pod job-1 died",
    ),
    "moved": (
        instead(listed(1, ip="10.0.0.9")),
        "AddressChanged",
        "rank 1: pod job-1 moved from 10.0.0.1 to 10.0.0.9",
    ),
    "moved before it was told": (instead(view(1, ip="10.0.0.9")), "AddressChanged", "rank 1"),
}


@pytest.mark.parametrize(("pods", "reason", "words"), LOSSES.values(), ids=LOSSES)
def test_a_loss_names_the_rank_and_what_happened_to_it(
    pods: tuple[Pod, ...], reason: str, words: str
) -> None:
    loss = loss_of(world(observed(*pods)))
    assert loss is not None
    assert loss.reason.name == reason
    assert words in loss.message


@pytest.mark.parametrize(
    "pods",
    [
        ALL,
        instead(listed(1, ready=False, failures=2)),
        instead(listed(1, ip="")),
        instead(view(1)),
        instead(listed(1, disrupted=True)),
    ],
    ids=["whole", "crashing-in-place", "no-address-for-now", "not-told-yet", "about-to-be-evicted"],
)
def test_these_are_no_losses(pods: tuple[Pod, ...]) -> None:
    assert loss_of(world(observed(*pods))) is None


SPREAD: dict[str, tuple[Topology, int, set[int]]] = {
    "mesh, lowest": (Topology.MESH, 0, {0, 1, 2}),
    "mesh, middle": (Topology.MESH, 1, {1, 2}),
    "mesh, highest": (Topology.MESH, 2, {2}),
    "star, hub": (Topology.STAR, 0, {0, 1, 2}),
    "star, leaf": (Topology.STAR, 1, {1}),
    "alone": (Topology.ALONE, 1, {1}),
}


@pytest.mark.parametrize(("topology", "lost", "renewed"), SPREAD.values(), ids=SPREAD)
def test_a_loss_takes_those_with_it_that_dial_the_lost_rank(
    topology: Topology, lost: int, renewed: set[int]
) -> None:
    loss, all_go = (
        loss_of(
            world_of(gang(topology=topology, scope=scope), observed(*without(lost)), Status(), NOW)
        )
        for scope in RestartScope
    )
    assert loss is not None
    assert loss.ranks == renewed
    assert all_go is not None
    assert all_go.ranks == {0, 1, 2}


def test_a_loss_during_a_renewal_adds_to_it() -> None:
    last = Renewal(list_number=1, ranks="2")
    seen = observed(listed(0), listed(1, deleting=True), view(2))
    loss = loss_of(world(seen, list_number=1, last_renewal=last))
    assert loss is not None
    assert loss.ranks == {1, 2}
    assert loss_of(world(observed(listed(0), listed(1)), list_number=1, last_renewal=last)) is None


def test_only_the_renewed_ranks_go_and_the_next_list_waits_for_them() -> None:
    found = world(observed(*ALL), list_number=1, last_renewal=Renewal(list_number=1, ranks="1-2"))
    assert (found.survivors, found.ranks_to_recreate, found.addressless) == (
        (0,),
        frozenset({1, 2}),
        (1, 2),
    )
    assert [pod.rank for pod in found.to_delete] == [1, 2]
    again = world(
        observed(listed(0), view(1), view(2)),
        list_number=1,
        last_renewal=Renewal(list_number=1, ranks="1-2"),
    )
    assert (again.to_delete, again.addressless, gathering(again).next_list(2)) == (
        (),
        (),
        AddressList(2, LIST),
    )


def test_a_rank_that_has_succeeded_is_no_loss() -> None:
    assert loss_of(world(observed(*without(1)), succeeded=frozenset({1}))) is None
    assert loss_of(world(observed(), succeeded=frozenset({0, 1, 2}))) is None


def test_a_list_that_nobody_holds_any_more_is_lost() -> None:
    """Handed out to one rank alone, which has ended and gone: the others would wait at their gates
    for ever.
    """
    loss = loss_of(world(observed(view(1), view(2)), succeeded=frozenset({0}), list_number=1))
    assert loss is not None
    assert loss.reason is AddressesReady.ListLost


def test_a_rank_that_was_not_told_yet_is_known_to_those_who_were() -> None:
    """The list was half handed out when rank 3 was lost; then rank 1, still at its gate, got
    another address.
    """
    four = "10.0.0.0,10.0.0.1,10.0.0.2,10.0.0.3"
    pods = (listed(0, ips=four), view(1, ip="10.0.0.9"), listed(2, ips=four), view(3))
    found = world(
        observed(*pods), size=4, list_number=1, last_renewal=Renewal(list_number=1, ranks="3")
    )
    loss = loss_of(found)
    assert loss is not None
    assert (loss.reason, loss.ranks) == (AddressesReady.AddressChanged, frozenset({1, 2, 3}))


def test_who_is_wished_for_during_a_renewal_is_not_lost() -> None:
    seen = observed(*ALL[:2], view(2))
    found = world(seen, size=5, list_number=1, last_renewal=Renewal(list_number=1, ranks="2"))
    assert loss_of(found) is None
    assert found.missing == (3, 4)


OUTDATED: dict[str, tuple[Pod, frozenset[int], bool]] = {
    "it crashed after a peer was done": (listed(2, failures=1, ready=False), frozenset({0}), True),
    "it runs again": (listed(2, failures=1), frozenset({0}), False),
    "nobody is done": (listed(2, failures=1, ready=False), frozenset(), False),
    "it starts for the first time": (listed(2, ready=False), frozenset({0}), False),
}


@pytest.mark.parametrize(("pod", "succeeded", "outdated"), OUTDATED.values(), ids=OUTDATED)
def test_who_starts_again_must_not_dial_the_address_of_a_rank_that_is_done(
    pod: Pod, succeeded: frozenset[int], outdated: bool
) -> None:
    assert is_outdated(world(observed(listed(1), pod), succeeded=succeeded)) is outdated


def test_a_list_half_handed_out_is_for_the_rest() -> None:
    found = world(observed(listed(0), view(1), view(2, number=1)))
    assert [pod.rank for pod in found.unpublished] == [1, 2]
    assert found.address_list.text == LIST
    assert world(observed(*ALL)).unpublished == ()


STALE: dict[str, tuple[Pod, bool]] = {
    "fresh": (view(1), False),
    "has an old list": (listed(1), True),
    "has an old list and is ending": (listed(1, deleting=True), False),
    "failed": (view(1, phase="Failed"), True),
}


@pytest.mark.parametrize(("pod", "stale"), STALE.values(), ids=STALE)
def test_what_cannot_be_part_of_the_next_list_goes(pod: Pod, stale: bool) -> None:
    found = world(
        observed(view(0), pod, view(2)), list_number=1, last_renewal=Renewal(list_number=1)
    )
    assert found.to_delete == ((pod,) if stale else ())
    assert (1 in found.addressless) is (stale or pod.deleting)


def test_a_rank_beyond_the_last_goes() -> None:
    extra = view(2)
    found = world(observed(view(0), view(1), extra), size=2)
    assert (found.to_delete, found.missing, found.addressless) == ((extra,), (), ())
    found = world(observed(*ALL), size=2)
    assert (found.to_delete, loss_of(found), found.size, found.unfinished) == (
        (ALL[2],),
        None,
        3,
        (0, 1),
    )


def test_a_finished_rank_beyond_the_last_keeps_its_logs_unless_something_of_it_runs_on() -> None:
    done = listed(2, succeeded=True, all_ended=True)
    for pod, stale in (
        (done, ()),
        (changed(done, all_ended=False), (changed(done, all_ended=False),)),
    ):
        assert (
            world(observed(listed(0), listed(1), pod), size=2, succeeded=frozenset({2})).to_delete
            == stale
        )


def test_a_succeeded_rank_keeps_its_pod_and_nobody_stands_for_it_in_the_next_list() -> None:
    """Its address may be another job's by then, or nobody's: NNG gives up on it without a word."""
    seen = observed(listed(0, succeeded=True), view(1), view(2))
    found = world(
        seen, succeeded=frozenset({0}), list_number=1, last_renewal=Renewal(list_number=1)
    )
    assert (found.to_delete, found.missing, found.addressless) == ((), (), ())
    assert gathering(found).next_list(2).text == f"{NOBODY},10.0.0.1,10.0.0.2"
    gone = world(
        observed(view(1), view(2)),
        succeeded=frozenset({0}),
        list_number=1,
        last_renewal=Renewal(list_number=1),
    )
    assert gathering(gone).next_list(2).text == f"{NOBODY},10.0.0.1,10.0.0.2"
    assert gone.missing == ()


@pytest.mark.parametrize(
    ("pod", "usable"),
    [(view(1), True), (view(1, ip=""), False), (view(1, deleting=True), False)],
    ids=["address", "no-address", "ending"],
)
def test_the_next_list_waits_for_every_address(pod: Pod, usable: bool) -> None:
    found = world(observed(view(0), pod, view(2)))
    assert found.addressless == (() if usable else (1,))


def test_missing_is_who_has_no_pod_at_all() -> None:
    assert world(observed(view(0), view(1, deleting=True))).missing == (2,)


def test_moved_and_outdated() -> None:
    pods = instead(listed(1, ip="10.0.0.9"))
    found = world(observed(*pods))
    assert {pod.rank for pod in pods if has_moved(found, pod)} == {1}
    assert found.ranks_to_recreate == frozenset()
    dead = world(
        observed(*without(2, pods), view(2)), list_number=1, last_renewal=Renewal(list_number=1)
    )
    assert dead.ranks_to_recreate == {0, 1}
    assert not any(
        has_moved(dead, pod)
        for rank, pod in dead.pods.items()
        if rank not in dead.ranks_to_recreate
    )


SIZES: dict[str, tuple[Observed, dict[str, Any], tuple[int, int]]] = {
    "before the start": (observed(*FRESH), {}, (2, 2)),
    "runs": (observed(*ALL), {}, (3, 4)),
    "its list is lost": (observed(*FRESH), {"list_number": 1}, (5, 6)),
    "all are renewed": (
        observed(*FRESH),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="0-2")},
        (3, 2),
    ),
    "the last is renewed": (
        observed(*ALL),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2")},
        (3, 2),
    ),
    "an early one is renewed": (
        observed(*ALL),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="1")},
        (3, 3),
    ),
}


@pytest.mark.parametrize(("seen", "status", "sizes"), SIZES.values(), ids=SIZES)
def test_how_many_are_in_the_world_and_how_many_the_next_list_needs(
    seen: Observed, status: dict[str, Any], sizes: tuple[int, int]
) -> None:
    found = world_of(gang(size=5, minimum=2), seen, Status(**status), NOW)
    assert (found.size, gathering(found).minimum_size) == sizes


def test_the_next_list_reaches_up_to_the_first_gap() -> None:
    assert world(observed(view(0), view(2))).possible_size == 1
    assert world(observed(view(2)), succeeded=frozenset({0, 1})).possible_size == 3


def test_what_was_settled_replaces_what_was_known() -> None:
    found = world(observed(*ALL))
    assert found.unfinished == (0, 1, 2)
    assert replace(found, succeeded=frozenset({1})).unfinished == (0, 2)
