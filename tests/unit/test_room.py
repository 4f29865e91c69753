"""Not enough room: when a job gives its pods back, what it says, when it tries again."""

from typing import Any

import pytest
from dijob.core import room
from dijob.core.actions import CreatePod, DeletePod
from dijob.core.members import compact
from dijob.core.observe import Observed, Pod
from dijob.spec.model import DIJob
from dijob.spec.status import GivenBack, Renewal, Status, stamp
from unit.builders import NOW, gang, job, later, listed, observed, plan, view, world_of

BORN = NOW.isoformat()
HOME = {"created": BORN}
HOMELESS: dict[str, Any] = {"scheduled": False, "ip": "", "complaint": "Unschedulable: 0/2 nodes", "created": BORN}
FULL = observed(view(0, **HOME), view(1, **HOME), view(2, **HOMELESS))

CASES: dict[str, tuple[Observed, dict[str, Any], float, bool]] = {
    "a rank finds no node": (FULL, {}, 11, True),
    "not for long": (FULL, {}, 9, False),
    "nobody holds anything": (observed(*(view(r, **HOMELESS) for r in range(3))), {}, 99, False),
    "no word from the scheduler": (observed(view(0), view(2, **HOMELESS | {"complaint": ""})), {}, 99, False),
    "its pod is going": (observed(view(0), view(2, **HOMELESS, deleting=True)), {}, 99, False),
    "the job has started": (observed(listed(0), listed(1), view(2, **HOMELESS)), {"epoch": 1}, 99, False),
    "only a finished rank has a node": (
        observed(view(0, **HOMELESS), view(1, **HOME, phase="Succeeded")),
        {"succeeded": frozenset({1})},
        99,
        False,
    ),
    "a renewed one of which nobody runs": (FULL, {"epoch": 1, "last_renewal": Renewal(epoch=1)}, 11, True),
    "one above the minimum": (FULL, {"minimum": 2}, 99, False),
    "it waits already": (FULL, {"given_back": GivenBack(count=1, until=stamp(later(200)))}, 99, False),
}


@pytest.mark.parametrize(("seen", "status", "seconds", "gives"), CASES.values(), ids=CASES)
def test_a_job_gives_its_pods_back_when(seen: Observed, status: dict[str, Any], seconds: float, gives: bool) -> None:
    words = dict(status)
    done, minimum = words.pop("succeeded", frozenset()), words.pop("minimum", 3)
    stored = Status(**words)
    world = world_of(gang(minimum=minimum), seen, stored.model_copy(update={"succeeded_ranks": compact(done)}), NOW)
    given = room.gives_back(world, seen, stored, 10, later(seconds))
    assert (given is not None) == gives
    if given:
        assert "rank 2: Unschedulable: 0/2 nodes" in given.message


def test_the_pause_grows_and_differs_between_jobs() -> None:
    pauses = [[room._pause(uid, count) for count in range(8)] for uid in ("a", "b")]
    assert pauses[0] != pauses[1]
    for jobs in pauses:
        assert all(15 * 2 ** min(n, 4) <= pause <= min(45 * 2**n, 900) for n, pause in enumerate(jobs)), jobs


def step(owner: DIJob, seen: Observed, seconds: float) -> tuple[Any, DIJob]:
    decided = plan(owner, seen, later(seconds))
    return decided, owner.model_copy(update={"status": decided.status})


def test_written_down_then_given_back_then_tried_again() -> None:
    owner = job(scheduleTimeoutSeconds=10)
    decided, owner = step(owner, FULL, 11)
    assert (decided.actions, decided.requeue_after) == ((), 0.0)
    said = {c.type: c for c in decided.status.conditions}["AddressesReady"]
    assert (said.status, said.reason) == ("False", "NoRoom")
    assert "tries again at 2026-05-04T12:00" in said.message
    assert [event.reason for event in decided.events] == ["NoRoom"]
    decided, owner = step(owner, FULL, 12)
    assert [type(action) for action in decided.actions] == [DeletePod] * 3
    decided, owner = step(owner, Observed(), 13)
    assert decided.actions == ()
    assert 0 < decided.requeue_after < 46
    decided, owner = step(owner, Observed(), 13 + decided.requeue_after)
    assert [type(action) for action in decided.actions] == [CreatePod] * 3


def test_a_started_job_never_gives_back_what_it_has() -> None:
    pods: list[Pod] = [listed(0), listed(1), view(2, **HOMELESS)]
    owner = job(status={"epoch": 1}, scheduleTimeoutSeconds=10)
    decided, _ = step(owner, observed(*pods), 600)
    assert not any(isinstance(action, DeletePod) for action in decided.actions)
