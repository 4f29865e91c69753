"""Verification of the peer list, and handling of pods whose annotations claim something else."""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.status import Renewal, Status
from dijob.core.actions import DeletePod, PublishAddresses
from dijob.core.addresses import AddressList
from dijob.core.members import Gang
from dijob.core.membership import address_list
from dijob.core.membership.address_list import PLACEHOLDER, newest_list, verify_pod
from dijob.core.observed.views import Pod
from dijob.core.plan import make_plan as real_plan
from dijob.names import Addressing
from samples.builders import (
    LIST,
    NOW,
    gang,
    gives,
    hands_out,
    job,
    listed,
    lists_of,
    observed,
    record,
    stored,
    view,
)

TRUE = Status(list_number=1, address_list=record(1, LIST))
THEIRS = "10.6.6.6,10.6.6.6,10.6.6.6"
NAMED = replace(gang(), addressing=Addressing.HOSTNAME)
NAMES = "job-0.job,job-1.job,job-2.job"


def by_rank(*pods: Pod) -> dict[int, Pod]:
    return {pod.rank: pod for pod in pods}


IN_FORCE: dict[str, tuple[Gang, tuple[Pod, ...], Status, str]] = {
    "no pod has the list yet": (gang(), (view(0), view(1), view(2)), TRUE, LIST),
    "all pods have the list": (gang(), (listed(0), listed(1), listed(2)), TRUE, LIST),
    "all copies are forged": (
        gang(),
        tuple(listed(rank, ips=THEIRS) for rank in range(3)),
        TRUE,
        LIST,
    ),
    "one has moved, the copies prove it": (
        gang(),
        (listed(0), listed(1, ip="10.0.0.9"), listed(2)),
        TRUE,
        LIST,
    ),
    "one has moved, no copy is left": (
        gang(),
        (view(0), view(1, ip="10.0.0.9"), view(2)),
        TRUE,
        "",
    ),
    "one pod is lost, and no copy is left": (gang(), (view(0), view(2)), TRUE, ""),
    "forged under its number": (gang(), (view(0), listed(2, ips=THEIRS)), TRUE, ""),
    "correct list with another revision": (
        gang(),
        (view(0), listed(2)),
        TRUE.model_copy(update={"list_number": 2}),
        "",
    ),
    "of names": (NAMED, (view(0),), Status(list_number=4, address_list=record(4, NAMES)), NAMES),
    "a rank had succeeded": (
        gang(),
        (view(0), view(2)),
        Status(
            list_number=3,
            address_list=record(3, f"10.0.0.0,{PLACEHOLDER},10.0.0.2"),
            succeeded_ranks="1",
        ),
        f"10.0.0.0,{PLACEHOLDER},10.0.0.2",
    ),
    "a rank succeeded later": (
        gang(),
        (view(0), view(1, succeeded=True), view(2)),
        TRUE.model_copy(update={"succeeded_ranks": "1"}),
        LIST,
    ),
    "no digest in the status": (
        gang(),
        (listed(0), listed(1), listed(2)),
        Status(list_number=1),
        "",
    ),
}


@pytest.mark.parametrize(("of", "pods", "status", "found"), IN_FORCE.values(), ids=IN_FORCE)
def test_a_list_is_active_if_it_has_the_digest_in_the_status(
    of: Gang, pods: tuple[Pod, ...], status: Status, found: str
) -> None:
    assert newest_list(of, by_rank(*pods), status) == AddressList(status.list_number, found)


FORGED: dict[str, dict[str, Any]] = {
    "a number beyond all": {"number": 999_999_999_999_999},
    "a list": {"ips": THEIRS},
    "a list with a revision": {"number": 777, "ips": THEIRS},
    "a number of old": {"number": 0},
    "nothing left": {"number": 0, "ips": ""},
    "a restart request": {"renew_from": 1},
    "a future restart request": {"renew_from": 777},
    "annotations derived from the list": {
        "derived": frozenset({("diengine.opendilab.org/topology", "0")})
    },
    "a label": {"labelled": False},
}


def running(**status: Any) -> DIJob:
    owner = job()
    first = hands_out(owner, observed(view(0), view(1), view(2)), NOW).status
    return owner.model_copy(update={"status": first.model_copy(update=status)})


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize(
    "given", [{}, {"uid-1": 1}], ids=["a new operator", "the one that wrote it"]
)
def test_an_edited_copy_of_the_list_is_only_written_again(
    forged: dict[str, Any], given: dict[str, int]
) -> None:
    owner, services = running(), frozenset({"job"})
    decided = real_plan(
        owner,
        observed(listed(0), listed(1, **forged), listed(2), published=given, services=services),
        NOW,
    )
    assert decided.actions == (gives(1, 1, LIST),)
    assert (decided.status.list_number, decided.status.renewals, decided.status.restarts) == (
        1,
        0,
        0,
    )


def test_an_older_revision_on_a_pod_requests_no_restart() -> None:
    """The operator itself has written the newest list to the pod, so it knows that the pod has the
    list.
    """
    last = Renewal(list_number=1, ranks="1-2", reason="PodLost", message="", time="")
    status = {"list_number": 2, "address_list": record(2, LIST), "last_renewal": last}
    pods = [listed(rank, number=2) for rank in (0, 1)]
    back = listed(2, number=1, ips=THEIRS)
    decided = real_plan(
        running(**status),
        observed(*pods, back, published={"uid-2": 2}, services=frozenset({"job"})),
        NOW,
    )
    assert decided.actions == (gives(2, 2, LIST),)


def test_a_pod_that_started_with_a_forged_list_before_the_first_one_is_recreated() -> None:
    lured = listed(1, number=777, ips=THEIRS)
    decided = real_plan(job(), observed(view(0), lured, view(2), services=frozenset({"job"})), NOW)
    assert decided.actions == (DeletePod("job-1", "uid-1"),)
    assert decided.status.restarts == 0


def test_a_pod_at_its_gate_with_a_forged_list_gets_the_published_one() -> None:
    lured = view(1, number=777, ips=THEIRS)
    owner, seen = job(), observed(view(0), lured, view(2))
    owner = stored(owner, real_plan(owner, seen, NOW))
    decided = real_plan(owner, seen, NOW)
    assert decided.actions == tuple(gives(rank, 1, LIST) for rank in range(3))


def test_after_a_crash_before_the_first_pod_the_next_operator_publishes_the_same_list() -> None:
    owner = running()
    assert owner.status.list_number == 1
    decided = real_plan(owner, observed(view(0), view(1), view(2)), NOW)
    assert decided.actions == tuple(gives(rank, 1, LIST) for rank in range(3))


def test_after_that_crash_a_changed_address_makes_the_list_stale() -> None:
    owner, moved = running(), observed(view(0), view(1, ip="10.0.0.9"), view(2))
    dead = real_plan(owner, moved, NOW).status
    assert dead.last_renewal is not None
    assert (dead.last_renewal.reason, dead.restarts) == ("ListLost", 0)
    owner = owner.model_copy(update={"status": dead})
    after = hands_out(owner, moved, NOW)
    assert lists_of(after.actions) == {AddressList(2, "10.0.0.0,10.0.0.9,10.0.0.2")}


@pytest.mark.parametrize(
    ("pods", "number"),
    [
        ([listed(rank, number=5) for rank in range(3)], 5),
        ([listed(0, number=5), listed(1, number=5), listed(2, number=5, ip="10.0.0.9")], 0),
        ([listed(rank, number=5, ips=THEIRS) for rank in range(3)], 0),
        ([view(rank) for rank in range(3)], 0),
        ([view(rank, number=5, ips=",".join([PLACEHOLDER] * 3)) for rank in range(3)], 0),
    ],
    ids=[
        "the kubelets say the same",
        "one has another address",
        "forged",
        "no list",
        "all finished, before any began",
    ],
)
def test_a_deleted_status_restores_the_list_that_the_kubelets_confirm(
    pods: list[Pod], number: int
) -> None:
    assert address_list.recover_revision(gang(), observed(*pods), Status()).list_number == number


def test_the_template_hash_on_a_pod_is_ignored_if_the_status_has_one() -> None:
    owner = running()
    pods = [listed(0, template_hash="other"), listed(1), listed(2)]
    assert not real_plan(owner, observed(*pods, services=frozenset({"job"})), NOW).actions
    lost = real_plan(owner, observed(*pods[:2], services=frozenset({"job"})), NOW).status
    assert lost.last_renewal is not None, "it still heals"


def test_published_revisions_are_not_reused_after_the_status_was_deleted() -> None:
    """The processes run with revision 3, so a list with revision 1 would not restart them."""
    given = {f"uid-{rank}": 3 for rank in range(3)}
    seen = observed(
        view(0, uid="new", ip="10.0.0.9"),
        listed(1, number=3),
        listed(2, number=3),
        published=given,
    )
    dead = real_plan(job(), seen, NOW).status
    assert dead.last_renewal is not None
    assert (dead.last_renewal.list_number, dead.last_renewal.ranks) == (3, "0-2")


def test_a_forged_last_renewal_costs_only_one_revision() -> None:
    owner = running(
        last_renewal=Renewal(
            list_number=1_000_000, ranks="0-2", reason="PodLost", message="", time=""
        )
    )
    seen = observed(view(0), view(1), view(2), services=frozenset({"job"}))
    numbered = real_plan(owner, seen, NOW)
    assert numbered.status.list_number == 1_000_001
    after = real_plan(stored(owner, numbered), seen, NOW)
    assert {one.number for one in lists_of(after.actions)} == {1_000_001}


def test_all_ranks_restart_if_nothing_verifies_their_list_even_while_the_job_grows() -> None:
    owner = running()
    owner = owner.model_copy(update={"spec": owner.spec.model_copy(update={"replicas": 5})})
    pods = [listed(rank, ips=THEIRS) for rank in range(3)]
    dead = real_plan(owner, observed(replace(pods[0], ip="10.0.0.9"), *pods[1:]), NOW).status
    assert dead.last_renewal is not None
    assert (dead.last_renewal.reason, dead.last_renewal.ranks) == ("ListLost", "0-2")


def test_a_write_without_a_response_is_accepted_once_the_watch_shows_it() -> None:
    """The operator knows of revision 1, and the pod shows revision 2. Then revision 3 comes, with
    another rank.
    """
    last = Renewal(list_number=1, ranks="1-2", reason="PodLost", message="", time="")
    owner = running(list_number=3, address_list=record(3, LIST), last_renewal=last)
    pods = [
        listed(0, number=3),
        listed(1, number=2, renew_from=2, ended_for=2),
        listed(2, number=3),
    ]
    decided = real_plan(
        owner, observed(*pods, published={"uid-1": 1}, services=frozenset({"job"})), NOW
    )
    assert [
        one.copy.renew_from for one in decided.actions if isinstance(one, PublishAddresses)
    ] == [2]


@pytest.mark.parametrize("key", ["", "key"], ids=["gate", "channel"])
def test_a_revision_in_a_termination_message_that_never_existed_does_not_count(key: str) -> None:
    pod = view(1, channel_key=key, ended_for=7)
    assert verify_pod(pod, AddressList(2, LIST), 0, Status()).containers.ended_for == 0
    assert verify_pod(pod, AddressList(7, LIST), 0, Status()).containers.ended_for == 7
