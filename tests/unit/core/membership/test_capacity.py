"""Releasing capacity: when a job releases it, what the job reports, and when it tries again."""

from dataclasses import replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.status import GivenBack, Renewal, Status, format_time
from dijob.core.actions import CreatePod, DeletePod
from dijob.core.members import compact_ranks
from dijob.core.membership import capacity
from dijob.core.membership.rendezvous import Rendezvous
from dijob.core.observed.rejections import of_creation
from dijob.core.observed.views import ApiRejection, Observed, Pod, RejectionCause, Room
from dijob.core.plan import Plan
from samples.builders import (
    NOW,
    conditions_of,
    gang,
    job,
    later,
    listed,
    observed,
    plan,
    stored,
    view,
    world_of,
)

BORN = NOW.isoformat()
HOME: dict[str, Any] = {"created": BORN}
HOMELESS: dict[str, Any] = {
    "node": "",
    "ip": "",
    "complaint": "Unschedulable: 0/2 nodes",
    "created": BORN,
}
ALONE = observed(view(0, **HOME), view(1, **HOME), view(2, **HOMELESS))
FULL = replace(ALONE, room=Room(foreign_pods=True))


def quota(
    seconds: float, why: RejectionCause = RejectionCause.FORBIDDEN, rank: int = 2
) -> dict[str, ApiRejection]:
    """A rank's pod that has been rejected since a time."""
    return {f"pod/job-{rank}": ApiRejection(why, "exceeded quota: pods", NOW, since=later(seconds))}


def held(*ranks: int, **known: Any) -> Observed:
    return observed(*(view(rank, **HOME) for rank in ranks), **known)


UNPLACED = observed(*(view(r, **HOMELESS | {"complaint": ""}) for r in (0, 1)), rejections=quota(0))
CASES: dict[str, tuple[Observed, dict[str, Any], float, bool]] = {
    "a rank finds no node": (FULL, {}, 11, True),
    "not for long": (FULL, {}, 9, False),
    "another job finds no node either": (replace(ALONE, room=Room(contended=True)), {}, 11, True),
    "no other pod waits for a node": (ALONE, {}, 99, False),
    "no pod has a node": (observed(*(view(r, **HOMELESS) for r in range(3))), {}, 99, False),
    "no report from the scheduler": (
        observed(view(0), view(2, **HOMELESS | {"complaint": ""})),
        {},
        99,
        False,
    ),
    "its pod is going": (observed(view(0), view(2, **HOMELESS, deleting=True)), {}, 99, False),
    "the job has started": (
        observed(listed(0), listed(1), view(2, **HOMELESS)),
        {"list_number": 1},
        99,
        False,
    ),
    "only a finished rank has a node": (
        observed(view(0, **HOMELESS), view(1, **HOME, phase="Succeeded")),
        {"succeeded": frozenset({1})},
        99,
        False,
    ),
    "a restarting job in which no rank runs": (
        FULL,
        {"list_number": 1, "last_renewal": Renewal(list_number=1)},
        11,
        True,
    ),
    "one above the minimum": (FULL, {"minimum": 2}, 99, False),
    "a rank is rejected": (held(0, 1, rejections=quota(0)), {}, 11, True),
    "only because of a quota": (
        held(0, 1, rejections={"pod/job-2": replace(quota(0)["pod/job-2"], message="no account")}),
        {},
        99,
        False,
    ),
    "rejected for too short a time": (held(0, 1, rejections=quota(2)), {}, 11, False),
    "because of an invalid spec": (
        held(0, 1, rejections=quota(0, RejectionCause.REJECTED)),
        {},
        99,
        False,
    ),
    "by an apiserver that is away": (
        held(0, 1, rejections=quota(0, RejectionCause.UNAVAILABLE)),
        {},
        99,
        False,
    ),
    "a pod without a node fills a quota too": (UNPLACED, {}, 11, True),
    "all ranks are rejected": (held(rejections=quota(0) | quota(0, rank=0)), {}, 99, False),
    "it was rejected once, and exists now": (held(0, 1, 2, rejections=quota(0)), {}, 99, False),
    "a rank above the minimum is rejected": (
        held(0, 1, rejections=quota(0)),
        {"minimum": 2},
        99,
        False,
    ),
    "rejected while the others run": (
        observed(listed(0), listed(1), rejections=quota(0)),
        {"list_number": 1, "last_renewal": Renewal(list_number=1, ranks="2")},
        99,
        False,
    ),
    "rejected again after the last attempt": (
        held(0, 1, rejections=quota(-300)),
        {"given_back": GivenBack(count=1, until=format_time(later(5)))},
        11,
        False,
    ),
    "rejected again for long": (
        held(0, 1, rejections=quota(-300)),
        {"given_back": GivenBack(count=1, until=format_time(later(5)))},
        16,
        True,
    ),
    "rejected before the job was resumed": (
        held(0, 1, rejections=quota(-300)),
        {"resume_time": format_time(later(5))},
        11,
        False,
    ),
    "it waits already": (
        FULL,
        {"given_back": GivenBack(count=1, until=format_time(later(200)))},
        99,
        False,
    ),
}


@pytest.mark.parametrize(("seen", "status", "seconds", "gives"), CASES.values(), ids=CASES)
def test_when_a_job_releases_its_capacity(
    seen: Observed, status: dict[str, Any], seconds: float, gives: bool
) -> None:
    words = dict(status)
    done, minimum = words.pop("succeeded", frozenset()), words.pop("minimum", 3)
    stored = Status(**words)
    world = world_of(
        gang(minimum=minimum),
        seen,
        stored.model_copy(update={"succeeded_ranks": compact_ranks(done)}),
        NOW,
    )
    given = capacity.due_record(Rendezvous(world, seen, 10, later(seconds)), stored, 10)
    assert (given is not None) == gives
    if given:
        assert (
            "rank 2: exceeded quota: pods"
            if seen.rejections
            else "rank 2: Unschedulable: 0/2 nodes"
        ) in given.message


def test_the_pause_grows_and_differs_between_jobs() -> None:
    pauses = [[capacity._retry_pause(uid, count) for count in range(8)] for uid in ("a", "b")]
    assert pauses[0] != pauses[1]
    for jobs in pauses:
        assert all(
            15 * 2 ** min(n, 4) <= pause <= min(45 * 2**n, 900) for n, pause in enumerate(jobs)
        ), jobs


def step(owner: DIJob, seen: Observed, seconds: float) -> tuple[Any, DIJob]:
    decided = plan(owner, seen, later(seconds))
    return decided, stored(owner, decided)


def test_a_release_is_stored_first_and_the_job_tries_again_later() -> None:
    owner = job(scheduleTimeoutSeconds=10)
    decided, owner = step(owner, FULL, 11)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    said = conditions_of(decided)["AddressesReady"]
    assert (said.status, said.reason) == ("False", "NoRoom")
    assert "tries again at 2026-05-04T12:00" in said.message
    assert [event.reason for event in decided.events] == ["NoRoom"]
    decided, owner = step(owner, FULL, 12)
    assert deleted(decided) == {"job-0", "job-1"}
    left = observed(view(2, **HOMELESS))
    decided, owner = step(owner, left, 13)
    assert decided.actions == ()
    assert 0 < decided.requeue_after < 46
    again = 13 + decided.requeue_after
    decided, owner = step(owner, left, again)
    assert [type(action) for action in decided.actions] == [CreatePod] * 2
    decided, owner = step(owner, FULL, again + 9)
    assert decided.status.given_back == owner.status.given_back
    assert deleted(decided) == set()


def deleted(decided: Plan) -> set[str]:
    return {action.name for action in decided.actions if isinstance(action, DeletePod)}


def test_with_an_exhausted_quota_pods_without_a_node_are_deleted_too() -> None:
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, UNPLACED, 11)
    decided, _ = step(owner, UNPLACED, 12)
    assert deleted(decided) == {"job-0", "job-1"}


def test_a_kept_pod_that_finds_a_node_ends_the_pause() -> None:
    """C19: the autoscaler has added a node."""
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, FULL, 11)
    found = observed(view(2, **HOME))
    decided, owner = step(owner, found, 14)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    decided, _ = step(owner, found, 14)
    assert [type(action) for action in decided.actions] == [CreatePod] * 2


def test_a_kept_pod_that_takes_capacity_released_for_another_job_is_deleted() -> None:
    """C19: otherwise two jobs would wait for each other again, with other ranks."""
    owner = job(scheduleTimeoutSeconds=10)
    _, owner = step(owner, replace(FULL, room=Room(contended=True)), 11)
    decided, owner = step(owner, observed(view(2, **HOME)), 14)
    assert deleted(decided) == {"job-2"}
    decided, _ = step(owner, observed(view(2, **HOMELESS)), 14)
    assert deleted(decided) == set()


def test_a_running_job_never_releases_its_capacity() -> None:
    pods: list[Pod] = [listed(0), listed(1), view(2, **HOMELESS)]
    owner = job(status={"listNumber": 1}, scheduleTimeoutSeconds=10)
    decided, _ = step(owner, observed(*pods), 600)
    assert not any(isinstance(action, DeletePod) for action in decided.actions)


def test_a_rejection_keeps_the_time_of_the_first_one() -> None:
    first = of_creation(403, "no", None, NOW)
    again = of_creation(403, "no", first, later(1))
    assert (again.since, again.attempts) == (NOW, 2)
    assert of_creation(503, "no", again, later(9)).since == later(9)
