"""The active peer list: its revision, which pods cannot be part of the next one, and how large that
is.
"""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.status import Renewal, Status
from dijob.core.decide.context import pods_without_list
from dijob.core.membership.address_list import PLACEHOLDER
from dijob.core.membership.losses import has_moved, loss_of
from dijob.core.membership.rendezvous import is_outdated
from dijob.core.observed.views import Observed, Pod
from samples.builders import ALL, LIST, NOW, changed, gang, listed, observed, view, world_of
from samples.worlds import FRESH, instead, rendezvous, without, world


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
def test_the_revision_comes_from_the_status(
    pods: tuple[Pod, ...], status: dict[str, Any], number: int, in_force: bool
) -> None:
    found = world(observed(*pods), **status)
    assert (found.address_list.number, found.list_is_active) == (number, in_force)


OUTDATED: dict[str, tuple[Pod, frozenset[int], bool]] = {
    "it crashed after a peer was done": (listed(2, failures=1, ready=False), frozenset({0}), True),
    "it has restarted": (listed(2, failures=1), frozenset({0}), False),
    "no rank has succeeded": (listed(2, failures=1, ready=False), frozenset(), False),
    "it starts for the first time": (listed(2, ready=False), frozenset({0}), False),
}


@pytest.mark.parametrize(("pod", "succeeded", "outdated"), OUTDATED.values(), ids=OUTDATED)
def test_a_restarting_rank_does_not_connect_to_the_address_of_a_completed_rank(
    pod: Pod, succeeded: frozenset[int], outdated: bool
) -> None:
    assert is_outdated(world(observed(listed(1), pod), succeeded=succeeded)) is outdated


def test_a_partly_published_list_is_written_to_the_remaining_pods() -> None:
    found = world(observed(listed(0), view(1), view(2, number=1)))
    assert [pod.rank for pod in pods_without_list(found)] == [1, 2]
    assert found.address_list.text == LIST
    assert pods_without_list(world(observed(*ALL))) == ()


STALE: dict[str, tuple[Pod, bool]] = {
    "fresh": (view(1), False),
    "has a stale list": (listed(1), True),
    "has a stale list and is ending": (listed(1, deleting=True), False),
    "failed": (view(1, phase="Failed"), True),
}


@pytest.mark.parametrize(("pod", "stale"), STALE.values(), ids=STALE)
def test_pods_that_cannot_be_part_of_the_next_list_are_deleted(pod: Pod, stale: bool) -> None:
    found = world(
        observed(view(0), pod, view(2)), list_number=1, last_renewal=Renewal(list_number=1)
    )
    assert found.to_delete == ((pod,) if stale else ())
    assert (1 in found.addressless) is (stale or pod.deleting)


def test_a_rank_beyond_the_desired_size_is_deleted() -> None:
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


def test_a_finished_rank_beyond_the_desired_size_keeps_its_logs_unless_it_still_runs() -> None:
    done = listed(2, succeeded=True, all_ended=True)
    for pod, stale in (
        (done, ()),
        (changed(done, all_ended=False), (changed(done, all_ended=False),)),
    ):
        assert (
            world(observed(listed(0), listed(1), pod), size=2, succeeded=frozenset({2})).to_delete
            == stale
        )


def test_a_succeeded_rank_keeps_its_pod_and_has_a_placeholder_in_the_next_list() -> None:
    """The address of a succeeded rank may belong to another job by then, or to no pod. NNG gives up
    on such an address silently.
    """
    seen = observed(listed(0, succeeded=True), view(1), view(2))
    found = world(
        seen, succeeded=frozenset({0}), list_number=1, last_renewal=Renewal(list_number=1)
    )
    assert (found.to_delete, found.missing, found.addressless) == ((), (), ())
    assert rendezvous(found).next_list(2).text == f"{PLACEHOLDER},10.0.0.1,10.0.0.2"
    gone = world(
        observed(view(1), view(2)),
        succeeded=frozenset({0}),
        list_number=1,
        last_renewal=Renewal(list_number=1),
    )
    assert rendezvous(gone).next_list(2).text == f"{PLACEHOLDER},10.0.0.1,10.0.0.2"
    assert gone.missing == ()


@pytest.mark.parametrize(
    ("pod", "usable"),
    [(view(1), True), (view(1, ip=""), False), (view(1, deleting=True), False)],
    ids=["address", "no-address", "ending"],
)
def test_the_next_list_waits_for_every_address(pod: Pod, usable: bool) -> None:
    found = world(observed(view(0), pod, view(2)))
    assert found.addressless == (() if usable else (1,))


def test_missing_ranks_have_no_pod_at_all() -> None:
    assert world(observed(view(0), view(1, deleting=True))).missing == (2,)


def test_changed_addresses_and_outdated_lists() -> None:
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
    "all ranks restart": (
        observed(*FRESH),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="0-2")},
        (3, 2),
    ),
    "the last rank restarts": (
        observed(*ALL),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2")},
        (3, 2),
    ),
    "an early rank restarts": (
        observed(*ALL),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="1")},
        (3, 3),
    ),
}


@pytest.mark.parametrize(("seen", "status", "sizes"), SIZES.values(), ids=SIZES)
def test_the_size_of_the_world_and_the_smallest_next_list(
    seen: Observed, status: dict[str, Any], sizes: tuple[int, int]
) -> None:
    found = world_of(gang(size=5, minimum=2), seen, Status(**status), NOW)
    assert (found.size, rendezvous(found).minimum_size) == sizes


def test_the_next_list_reaches_up_to_the_first_gap() -> None:
    assert world(observed(view(0), view(2))).possible_size == 1
    assert world(observed(view(2)), succeeded=frozenset({0, 1})).possible_size == 3


def test_succeeded_ranks_are_no_longer_unfinished() -> None:
    found = world(observed(*ALL))
    assert found.unfinished == (0, 1, 2)
    assert replace(found, succeeded=frozenset({1})).unfinished == (0, 2)
