"""Whether the active peer list is still correct: what counts as a loss, and which ranks restart
with the lost one.
"""

import pytest
from dijob.api.status import Renewal, Status
from dijob.core.addresses import AddressList
from dijob.core.membership.losses import loss_of
from dijob.core.observed.views import Pod
from dijob.names import RestartScope, Topology
from dijob.reasons import AddressesReady
from samples.builders import ALL, LIST, NOW, gang, listed, observed, view, world_of
from samples.worlds import instead, rendezvous, without, world

LOSSES: dict[str, tuple[tuple[Pod, ...], str, str]] = {
    "pod deleted": (without(1), "PodLost", "rank 1: its pod is gone"),
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
    "failed without a reason": (instead(listed(1, phase="Failed")), "PodFailed", "no reason given"),
    "main container failed for good": (instead(listed(1, broken=True)), "PodFailed", "rank 1"),
    "sandbox died": (
        instead(listed(1, sandbox=False)),
        "SandboxLost",
        "rank 1: the sandbox of pod job-1 died",
    ),
    "moved": (
        instead(listed(1, ip="10.0.0.9")),
        "AddressChanged",
        "rank 1: the address of pod job-1 changed from 10.0.0.1 to 10.0.0.9",
    ),
    "address changed before it had the list": (
        instead(view(1, ip="10.0.0.9")),
        "AddressChanged",
        "rank 1",
    ),
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
def test_situations_that_are_not_a_loss(pods: tuple[Pod, ...]) -> None:
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
def test_ranks_that_connect_to_the_lost_rank_restart_too(
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


def test_a_loss_during_a_re_rendezvous_extends_it() -> None:
    last = Renewal(list_number=1, ranks="2")
    seen = observed(listed(0), listed(1, deleting=True), view(2))
    loss = loss_of(world(seen, list_number=1, last_renewal=last))
    assert loss is not None
    assert loss.ranks == {1, 2}
    assert loss_of(world(observed(listed(0), listed(1)), list_number=1, last_renewal=last)) is None


def test_only_the_restarting_ranks_are_deleted_and_the_next_list_waits_for_them() -> None:
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
    assert (again.to_delete, again.addressless, rendezvous(again).next_list(2)) == (
        (),
        (),
        AddressList(2, LIST),
    )


def test_a_succeeded_rank_is_not_a_loss() -> None:
    assert loss_of(world(observed(*without(1)), succeeded=frozenset({1}))) is None
    assert loss_of(world(observed(), succeeded=frozenset({0, 1, 2}))) is None


def test_a_list_without_any_copy_is_lost() -> None:
    """The list was written only to one rank, whose pod has ended and is deleted. The others would
    wait at their gates indefinitely.
    """
    loss = loss_of(world(observed(view(1), view(2)), succeeded=frozenset({0}), list_number=1))
    assert loss is not None
    assert loss.reason is AddressesReady.ListLost


def test_a_rank_without_the_list_is_a_loss_for_ranks_that_have_it() -> None:
    """The list was partly published when rank 3 was lost. Then rank 1, still at its gate, got
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


def test_a_rank_added_during_a_re_rendezvous_is_not_lost() -> None:
    seen = observed(*ALL[:2], view(2))
    found = world(seen, size=5, list_number=1, last_renewal=Renewal(list_number=1, ranks="2"))
    assert loss_of(found) is None
    assert found.missing == (3, 4)
