"""The rendezvous: which ranks the next peer list has, and when: no gaps, the join window, late
joins, released pods.
"""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.status import Renewal, Status
from dijob.core.actions import CreateInOrder, CreatePod, PublishAddresses, ReleasePod
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.observed.views import ApiRejection, Observed, Pod, RejectionCause, Room
from samples.builders import (
    LIST,
    NOW,
    conditions_of,
    gang,
    gives,
    hands_out,
    job,
    later,
    listed,
    lists_of,
    observed,
    plan,
    stored,
    view,
    world_of,
)

PLACED: dict[str, Any] = {"placed": NOW.isoformat()}
HOMELESS: dict[str, Any] = {"node": "", "ip": "", "complaint": "Unschedulable: 0/2 nodes"}


def home(rank: int, **fields: Any) -> Pod:
    return view(rank, **PLACED, **fields)


def runs(rank: int, **fields: Any) -> Pod:
    return listed(rank, created=NOW.isoformat(), placed=NOW.isoformat(), **fields)


def homeless(rank: int) -> Pod:
    return view(rank, created=NOW.isoformat(), **HOMELESS)


REFUSED = {
    f"pod/job-{rank}": ApiRejection(RejectionCause.FORBIDDEN, "quota", NOW) for rank in range(4)
}


def rendezvous(
    pods: tuple[Pod, ...], seconds: float, minimum: int = 2, **status: Any
) -> Rendezvous:
    """The rendezvous of a job of `minimum` to 4 ranks. The pods of missing ranks are rejected."""
    seen = observed(*pods, rejections=REFUSED)
    world = world_of(gang(size=4, minimum=minimum), seen, Status(**status), NOW)
    return Rendezvous(world, seen, 10, later(seconds))


ALL = (home(0), home(1), home(2), home(3))
RENEWED = {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2-3")}
SIZES: dict[str, tuple[tuple[Pod, ...], float, dict[str, Any], int]] = {
    "all are there": (ALL, 0, {}, 4),
    "too few": (ALL[:1], 99, {}, 0),
    "enough, within the window": (ALL[:2], 9, {}, 0),
    "enough, and the window is over": (ALL[:2], 10, {}, 2),
    "a gap": ((home(0), home(1), home(3)), 10, {}, 2),
    "the time of placement is unknown": ((view(0), view(1)), 0, {}, 2),
    "the last one came late": ((home(0), view(1, placed=later(8).isoformat())), 17, {}, 0),
    "its image came late": ((home(0), home(1, gate_started=later(8).isoformat())), 17, {}, 0),
    "its image came late, and the window is over": (
        (home(0), home(1, gate_started=later(8).isoformat())),
        18,
        {},
        2,
    ),
    "an image is on the way": ((home(0), home(1), home(2, unstarted=True)), 10, {}, 2),
    "one joins, within the window": ((runs(0), runs(1), home(2)), 9, {"list_number": 1}, 0),
    "they run": ((runs(0), runs(1), runs(2), homeless(3)), 99, {}, 0),
    "one more is there": ((runs(0), runs(1), runs(2), home(3)), 0, {}, 4),
    "re-rendezvous, one finds no node": ((runs(0), runs(1), home(2), homeless(3)), 10, RENEWED, 3),
    "re-rendezvous, one has not found a node yet": (
        (runs(0), runs(1), home(2), homeless(3)),
        9,
        RENEWED,
        0,
    ),
    "re-rendezvous, one is ending": (
        (runs(0), runs(1), home(2), runs(3, deleting=True)),
        99,
        RENEWED,
        0,
    ),
    "re-rendezvous, one has no pod yet": ((runs(0), runs(1), home(2)), 99, RENEWED, 0),
    "re-rendezvous, all are back": (
        (runs(0), runs(1), home(2)),
        0,
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2")},
        3,
    ),
    "re-rendezvous, not without running ranks": (
        (runs(0), runs(3), home(1)),
        99,
        RENEWED | {"last_renewal": Renewal(list_number=1, ranks="1-2")},
        0,
    ),
}


@pytest.mark.parametrize(("pods", "seconds", "status", "size"), SIZES.values(), ids=SIZES)
def test_the_size_of_the_next_list(
    pods: tuple[Pod, ...], seconds: float, status: dict[str, Any], size: int
) -> None:
    assert rendezvous(pods, seconds, **status).next_size == size


def test_a_job_that_is_not_elastic_waits_for_all() -> None:
    assert rendezvous(ALL[:3], 99, minimum=4).next_size == 0


def test_no_list_is_published_without_any_rank() -> None:
    world = world_of(
        gang(size=4, minimum=2),
        observed(homeless(2)),
        Status(succeeded_ranks="0-1", **RENEWED),
        NOW,
    )
    assert Rendezvous(world, observed(), 0, later(99)).next_size == 0


def refused(
    *ranks: int, seconds: float = 0, why: RejectionCause = RejectionCause.FORBIDDEN
) -> dict[str, ApiRejection]:
    return {
        f"pod/job-{rank}": ApiRejection(why, "exceeded quota", NOW, since=later(seconds))
        for rank in ranks
    }


def lists(owner: DIJob, seen: Observed, seconds: float) -> set[str]:
    """Return the lists that are published."""
    first = plan(owner, seen, later(seconds))
    then = plan(stored(owner, first), seen, later(seconds))
    return {one.text for one in lists_of((*first.actions, *then.actions))}


def test_an_elastic_job_starts_without_ranks_that_a_quota_rejects() -> None:
    """The operator does not try to create the pods after the first rejected one."""
    owner = job(minReplicas=1, maxReplicas=4, replicas=4)
    for why in (RejectionCause.FORBIDDEN, RejectionCause.TAKEN, RejectionCause.UNAVAILABLE):
        seen = observed(home(0), rejections=refused(1, why=why))
        assert lists(owner, seen, 9) == set()
        assert lists(owner, seen, 10) == {"10.0.0.0"}
    ending = observed(home(0), rejections=refused(1, why=RejectionCause.TERMINATING))
    assert lists(owner, ending, 10) == set()


def test_a_re_rendezvous_continues_without_a_rank_that_is_rejected_for_long() -> None:
    last = Renewal(list_number=1, ranks="1-2", reason="PodLost", message="rank 1: gone").model_dump(
        by_alias=True
    )
    owner = job(
        minReplicas=1,
        maxReplicas=3,
        replicas=3,
        scheduleTimeoutSeconds=30,
        status={"listNumber": 1, "lastRenewal": last},
    )
    seen = observed(runs(0), home(1), rejections=refused(2, seconds=5))
    assert lists(owner, seen, 34) == set()
    assert lists(owner, seen, 35) == {"10.0.0.0,10.0.0.1"}
    lower = observed(runs(0), home(2), rejections=refused(1, seconds=5))
    assert not [
        action for action in plan(owner, lower, later(34)).actions if isinstance(action, ReleasePod)
    ]
    assert ReleasePod("job-2", "uid-2") in hands_out(owner, lower, later(35)).actions


BACK: dict[str, tuple[tuple[Pod, ...], int | None]] = {
    "a higher one has a node": ((home(0), home(1), homeless(2), home(3)), 3),
    "the highest of several": ((home(0), homeless(1), home(2), home(3)), 3),
    "no higher rank": ((home(0), home(1), home(2), homeless(3)), None),
    "one is being deleted already": ((home(0), homeless(1), home(2), home(3, deleting=True)), None),
    "below the minimum": ((homeless(0), home(1)), None),
    "it runs": ((runs(0), homeless(1), runs(2)), None),
    "no report from the scheduler": (
        (home(0), home(1), view(2, **HOMELESS | {"complaint": ""}), home(3)),
        None,
    ),
}


@pytest.mark.parametrize(("pods", "rank"), BACK.values(), ids=BACK)
def test_which_pod_is_released_for_a_lower_rank(pods: tuple[Pod, ...], rank: int | None) -> None:
    found = rendezvous(pods, 0).pod_to_release
    assert (found.rank if found else None) == rank


def test_the_window_stays_open_while_the_operator_is_creating_pods() -> None:
    world = rendezvous(ALL[:2], 99).world
    creating = Rendezvous(world, observed(*ALL[:2]), 10, later(99))
    assert (creating.next_size, creating.seconds_left) == (0, 1.0)


AGAIN = frozenset({"job-3"})
RECRUITS: dict[str, tuple[tuple[Pod, ...], frozenset[str], tuple[int, ...], tuple[int, ...]]] = {
    "required ranks at once": ((), AGAIN, (0, 1), ()),
    "required ranks before all others": ((home(0), home(2)), AGAIN, (1,), ()),
    "then the others in order": ((home(0), home(1)), frozenset(), (), (2, 3)),
    "also while no rank has a node yet": ((homeless(0), homeless(1)), frozenset(), (), (2, 3)),
    "a released rank waits": ((home(0), home(1), homeless(2)), AGAIN, (), ()),
    "a released rank does not block lower ranks": ((home(0), homeless(1)), AGAIN, (), (2,)),
    "until there is capacity": ((home(0), home(1), home(2)), AGAIN, (), (3,)),
    "all are there": (ALL, AGAIN, (), ()),
}


@pytest.mark.parametrize(
    ("pods", "held", "needed", "ranks_to_add"), RECRUITS.values(), ids=RECRUITS
)
def test_which_pods_are_created_now(
    pods: tuple[Pod, ...],
    held: frozenset[str],
    needed: tuple[int, ...],
    ranks_to_add: tuple[int, ...],
) -> None:
    under_test = Rendezvous(rendezvous(pods, 0).world, observed(*pods, room=Room(held)), 10, NOW)
    assert (under_test.needed, under_test.ranks_to_add) == (needed, ranks_to_add)


def test_a_scale_up_that_does_not_fit_does_not_stop_a_running_job() -> None:
    """With `replicas` alone the minimum grows with it, but a running job needs only the ranks that
    it has.
    """
    last = Renewal(list_number=1, ranks="0-2")
    pods = (home(0), home(1), home(2), home(3), homeless(4))
    world = world_of(
        gang(size=5, minimum=5), observed(*pods), Status(list_number=1, last_renewal=last), NOW
    )
    under_test = Rendezvous(world, observed(*pods), 10, NOW)
    assert (world.size, under_test.required_size, under_test.next_size) == (3, 3, 4)


def test_an_elastic_job_starts_with_three_of_four_ranks_and_the_fourth_joins() -> None:
    """Three start after the window. The fourth joins when it has a node, without disturbing the
    others.
    """
    owner, pods = (
        job(minReplicas=2, maxReplicas=4, replicas=4),
        (home(0), home(1), home(2), homeless(3)),
    )
    before = plan(owner, observed(*pods), later(4))
    assert (before.actions, before.requeue_after) == ((), 4.0)
    said = conditions_of(before)["AddressesReady"]
    assert (said.status, said.reason) == ("False", "AddressMissing")
    assert said.message.startswith(
        "rank 3: Unschedulable: 0/2 nodes (the job starts 10 s after ranks 0-1 have"
    )
    begun = hands_out(owner, observed(*pods), later(10))
    assert begun.actions == tuple(gives(r, 1, LIST) for r in range(3))

    running = (runs(0), runs(1), runs(2))
    told = plan(owner, observed(*running, homeless(3)), later(12))
    assert told.status.phase == "Running"
    said = conditions_of(told)["AddressesReady"]
    assert (said.status, said.message) == (
        "True",
        "3 addresses published as peer list revision 1; joining later: rank 3: Unschedulable:"
        " 0/2 nodes",
    )
    assert conditions_of(told)["Running"].message == "3 of 4 ranks are running"
    owner = stored(owner, told)
    joined = hands_out(owner, observed(*running, home(3), services=frozenset({"job"})), later(20))
    assert {type(action) for action in joined.actions} == {PublishAddresses}
    assert {one.number for one in lists_of(joined.actions)} == {2}
    assert joined.status.renewals == 0


def test_the_highest_rank_is_released_and_comes_back_later() -> None:
    owner = job(minReplicas=1, maxReplicas=3, replicas=3)
    assert plan(owner, observed(home(0), homeless(1), home(2)), NOW).actions == (
        ReleasePod("job-2", "uid-2"),
    )
    waits = plan(owner, observed(home(0), homeless(1), room=Room(frozenset({"job-2"}))), NOW)
    assert waits.actions == ()
    said = conditions_of(waits)["AddressesReady"].message
    assert "rank 2: its pod was deleted to free a node for a lower rank" in said
    again = plan(owner, observed(home(0), home(1), room=Room(frozenset({"job-2"}))), NOW)
    assert [type(action) for action in again.actions] == [CreateInOrder]


def test_required_ranks_are_created_at_once_and_the_others_in_order() -> None:
    owner = job(minReplicas=2, maxReplicas=4, replicas=4)
    assert [type(action) for action in plan(owner, observed(), NOW).actions] == [
        CreatePod,
        CreatePod,
    ]
    (action,) = plan(owner, observed(home(0), home(1)), NOW).actions
    assert isinstance(action, CreateInOrder)
    assert [member.rank for member in action.members] == [2, 3]
