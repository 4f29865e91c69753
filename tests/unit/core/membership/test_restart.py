"""In-place restart: which processes can restart in their pods, which have not yet, and which ends
are not failures.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from dijob.api.status import Charge, Renewal, Status, format_time
from dijob.core.actions import PublishAddresses
from dijob.core.membership import failures, restart
from dijob.core.membership.policy import Policy
from dijob.core.membership.restart import CALM_SECONDS, SETTLED_SECONDS, SLACK_SECONDS
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Observed, Pod
from dijob.pod import KILL_SECONDS, RENEWAL_CODE
from samples.builders import (
    NOW,
    changed,
    gang,
    hands_out,
    job,
    later,
    listed,
    observed,
    plan,
    view,
    world_of,
)

LONG_AGO, LATELY = format_time(later(-CALM_SECONDS - 1)), format_time(later(-CALM_SECONDS + 1))
TOLD = {("uid-1", 2): NOW}
WORDLESS = ContainerEnding(RENEWAL_CODE, 0, "Error", "")


def sound(**fields: Any) -> Pod:
    """Return a pod that can restart in place."""
    return listed(1, **{"restartable": True, "started": format_time(later(-99)), **fields})


POSSIBLE: dict[str, tuple[Pod, bool]] = {
    "sound": (sound(), True),
    "crashed long ago": (sound(ended=LONG_AGO), True),
    "crashed lately: the kubelet would make it wait": (sound(ended=LATELY), False),
    "an unreadable time": (sound(ended="yesterday"), False),
    "no launcher, or restartPolicy Never": (sound(restartable=False), False),
    "being deleted": (sound(deleting=True), False),
    "failed": (sound(phase="Failed"), False),
    "its sandbox died": (sound(sandbox=False), False),
    "it moved": (sound(ip="10.0.0.9"), False),
    "it never had a list": (sound(ips=""), False),
    "it has succeeded": (sound(succeeded=True), False),
}


@pytest.mark.parametrize(("pod", "possible"), POSSIBLE.values(), ids=POSSIBLE)
def test_which_pods_can_restart_in_place(pod: Pod, possible: bool) -> None:
    assert restart.can_restart(pod, NOW) is possible


def having_counted(renewed: int) -> Status:
    return Status(restarts_seen=(Charge(rank=1, uid="uid-1", restarts=1, renewed=renewed),))


AGAIN = sound(renew_from=2, started=format_time(later(2)))
PENDING: dict[str, tuple[Pod, Status, float, bool]] = {
    "never requested": (sound(), Status(), 99, False),
    "requested just now": (sound(renew_from=2), Status(), 0, True),
    "requested long ago": (sound(renew_from=2), Status(), 99, True),
    "its launcher reports it": (sound(renew_from=2, ended_for=2), Status(), 0, False),
    "for another revision": (sound(renew_from=2, ended_for=1), Status(), 0, True),
    "counted, and crashed afterwards": (sound(renew_from=2), having_counted(2), 0, False),
    "an older restart was counted": (sound(renew_from=2), having_counted(1), 0, True),
    "crashed just then, and stayed": (
        sound(renew_from=2, started=format_time(later(2))),
        Status(),
        2 + SETTLED_SECONDS,
        False,
    ),
    "crashed just then, a moment ago": (
        sound(renew_from=2, started=format_time(later(2))),
        Status(),
        3,
        True,
    ),
    "started in the second of the request": (
        sound(renew_from=2, started=format_time(NOW)),
        Status(),
        99,
        True,
    ),
    "crashed, and waits to restart": (
        sound(renew_from=2, started="", ended=LATELY),
        Status(),
        99,
        True,
    ),
    "ended without a record": (
        sound(renew_from=2, started="", restarts=1),
        Status(),
        99,
        True,
    ),
    "its image is still being pulled": (sound(renew_from=2, started=""), Status(), 99, False),
    "it has started for the first time just now": (
        sound(renew_from=2, started=format_time(later(97))),
        Status(),
        99,
        True,
    ),
    "it has started for the first time a while ago": (
        sound(renew_from=2, started=format_time(later(90))),
        Status(),
        99,
        False,
    ),
    "it has succeeded and never restarts": (
        sound(renew_from=2, succeeded=True),
        Status(),
        99,
        False,
    ),
}


@pytest.mark.parametrize(("pod", "status", "seconds", "pending"), PENDING.values(), ids=PENDING)
def test_when_a_restart_is_pending(pod: Pod, status: Status, seconds: float, pending: bool) -> None:
    assert restart.is_pending(pod, Observed(list_seen=TOLD), status, later(seconds)) is pending


def counted(number: int) -> Charge:
    """The accounting of a pod: the revision of its last counted restart (0: none)."""
    return Charge(rank=1, renewed=number)


@pytest.mark.parametrize(
    ("pod", "before", "new", "free"),
    [
        (sound(renew_from=2, ended_for=2), counted(0), 1, 1),
        (sound(renew_from=2, ended_for=2), counted(0), 3, 1),
        (sound(renew_from=2, ended_for=2), counted(2), 1, 0),
        (sound(ended_for=1), counted(0), 1, 0),
        (sound(renew_from=3, ended_for=2), counted(2), 1, 0),
        (sound(renew_from=2), counted(0), 1, 0),
        (sound(renew_from=2), counted(0), 2, 1),
        (sound(renew_from=2, unrecorded=True), counted(0), 1, 1),
        (sound(renew_from=2, unrecorded=True), counted(2), 1, 0),
        (sound(unrecorded=True), counted(0), 1, 0),
        (sound(renew_from=2, last_end=WORDLESS), counted(0), 1, 1),
        (sound(renew_from=2, last_end=WORDLESS), counted(2), 1, 0),
        (sound(last_end=WORDLESS), counted(0), 1, 0),
        (sound(renew_from=2), counted(2), 2, 0),
        (sound(), counted(0), 2, 0),
    ],
    ids=[
        "the renewal",
        "the renewal and two crashes before it",
        "a side container that crashed after a renewal that was counted",
        "a message for a list that nobody asked for, which the program has forged (H11)",
        "a side container that crashed while the next renewal was requested",
        "a crash before the renewal",
        "the renewal and a crash after it, both unseen",
        "a renewal whose record the kubelet has thrown away",
        "a crash whose record is gone, after a renewal that was counted",
        "a crash whose record is gone",
        "a renewal whose message found no room on the node's disk",
        "an end with the same code after a renewal that was counted",
        "an end with the same code that nobody has requested",
        "two crashes after a renewal that was counted",
        "two crashes",
    ],
)
def test_each_requested_restart_excuses_one_end(
    pod: Pod, before: Charge, new: int, free: int
) -> None:
    """H11: the launcher's message alone excuses no end."""
    assert restart.uncharged_ends(pod, before, new) == free


def counted_failures(*looks: Pod) -> int:
    """Return how many failures are counted after these observations of rank 1, all with list 3."""
    last = Renewal(list_number=2, reason="PodLost", message="", ranks="", time=format_time(NOW))
    status = Status(list_number=3, last_renewal=last)
    for pod in looks:
        world = world_of(gang(), observed(pod), status, NOW)
        before = failures.read_ledger(status, gang())
        status = failures.with_failures(before, world, Policy(gang()), NOW).into(status)
    return status.restarts


def again(restarts: int, renew_from: int, ended_for: int) -> Pod:
    """Return a pod whose main container was restarted for this list (0: after a crash)."""
    ended = format_time(later(restarts))
    return sound(
        number=3, failures=restarts, renew_from=renew_from, ended_for=ended_for, ended=ended
    )


@pytest.mark.parametrize(
    ("looks", "failed"),
    [
        ([again(1, 3, 2), again(2, 3, 3)], 0),
        ([again(1, 3, 2), again(2, 3, 0)], 1),
        ([again(1, 3, 3), again(2, 3, 3)], 1),
        ([again(1, 3, 99), again(2, 3, 99)], 2),
        ([again(1, 3, 1), again(2, 3, 2), again(3, 3, 3), again(4, 3, 3)], 1),
    ],
    ids=[
        "for the first request, then for the second, which came before its end was observed",
        "for the first request, then a crash",
        "twice for the same request",
        "twice for a list that does not exist yet, which the program has forged (H11)",
        "once for each of three requests, then a forged message (H11)",
    ],
)
def test_each_request_for_a_restart_excuses_one_end(looks: list[Pod], failed: int) -> None:
    assert counted_failures(*looks) == failed


def renewed(
    *pods: Pod, seconds: float = 0, told: dict[tuple[str, int], datetime] | None = None
) -> list[str]:
    """Return the actions in a job whose rank 0 was lost and is back."""
    last = Renewal(
        list_number=1, reason="PodLost", message="rank 0: gone", ranks="0-2", time=format_time(NOW)
    )
    owner = job(status={"listNumber": 1, "lastRenewal": last.model_dump(by_alias=True)})
    seen = observed(view(0), *pods, list_seen=told or {})
    return [
        f"{type(a).__name__} {getattr(a, 'name', '')}"
        for a in plan(owner, seen, later(seconds)).actions
    ]


def test_a_healthy_pod_restarts_in_place_and_another_is_deleted() -> None:
    other = listed(2, restartable=True, ended=LATELY)
    assert "DeletePod job-2" in renewed(sound(), other)
    assert "DeletePod job-1" not in renewed(sound(), other)


def test_only_ranks_that_connect_to_the_lost_rank_must_restart() -> None:
    last = Renewal(
        list_number=1, ranks="1-2", reason="PodLost", message="rank 1: gone", time=format_time(NOW)
    )
    owner = job(replicas=3, status={"listNumber": 1, "lastRenewal": last.model_dump(by_alias=True)})
    pods = (listed(0, restartable=True), view(1), listed(2, restartable=True))
    decided = hands_out(owner, observed(*pods), NOW)
    assert [
        one.copy.renew_from for one in decided.actions if isinstance(one, PublishAddresses)
    ] == [0, 0, 2]


def test_a_rank_that_does_not_restart_is_recreated_and_reported() -> None:
    owner = job(
        status={
            "listNumber": 2,
            "lastRenewal": {"listNumber": 1, "ranks": "0-1", "time": format_time(NOW)},
        }
    )
    lists: dict[str, Any] = {"ips": "10.0.0.0,10.0.0.1,10.0.0.2", "number": 2}
    stuck = sound(renew_from=2, **lists)
    seen = observed(
        listed(0, **lists), stuck, listed(2, **lists), services=frozenset({"job"}), list_seen=TOLD
    )
    bound = KILL_SECONDS + SLACK_SECONDS
    # The recent reminder alone would make the next reconciliation too late.
    reminded = replace(seen, reminded={(stuck.uid, 2): later(bound - 2)})
    assert plan(owner, reminded, later(bound - 1)).requeue_after == 1.5
    waits = plan(owner, seen, later(bound - 1)).status
    assert waits.renewals == 0
    peers = next(c for c in waits.conditions if c.type == "PeersReady")
    assert (peers.status, peers.message.split(":")[0]) == ("False", "rank 1")
    assert (peers.reason, peers.message) == (
        "Renewing",
        "rank 1: its program has up to 30 s to exit, and then restarts with the new peer list",
    )
    gives_up = plan(owner, seen, later(bound)).status
    assert gives_up.last_renewal is not None
    assert (gives_up.last_renewal.reason, gives_up.last_renewal.ranks) == ("NotRestarted", "1-2")


LATE: dict[str, tuple[Pod, float, bool]] = {
    "it has never started": (sound(renew_from=2, started=""), 300, False),
    "it has started for the first time just now": (
        sound(renew_from=2, started=format_time(later(299))),
        300,
        False,
    ),
    "it crashed and has just restarted": (
        sound(
            renew_from=2, started=format_time(later(299)), restarts=1, ended=format_time(later(200))
        ),
        300,
        False,
    ),
    "it has been running since before the request": (sound(renew_from=2), 300, True),
    "it does not restart": (sound(renew_from=2, started="", ended=LATELY), 300, True),
}


@pytest.mark.parametrize(("pod", "seconds", "anew"), LATE.values(), ids=LATE)
def test_a_pod_is_recreated_only_if_its_process_could_have_restarted(
    pod: Pod, seconds: float, anew: bool
) -> None:
    owner = job(
        status={
            "listNumber": 2,
            "lastRenewal": {"listNumber": 1, "ranks": "0-1", "time": format_time(NOW)},
        }
    )
    lists: dict[str, Any] = {"ips": "10.0.0.0,10.0.0.1,10.0.0.2", "number": 2}
    pods = (listed(0, **lists), changed(pod, ready=False, **lists), listed(2, **lists))
    seen = observed(*pods, services=frozenset({"job"}), list_seen=TOLD)
    last = plan(owner, seen, later(seconds)).status.last_renewal
    assert last is not None
    assert (last.reason == "NotRestarted") is anew


def test_a_program_that_saves_a_checkpoint_has_its_full_grace_period() -> None:
    begun = {"type": "Running", "status": "True"}
    died = {"listNumber": 1, "ranks": "0-1", "time": format_time(NOW)}
    owner = job(status={"listNumber": 2, "lastRenewal": died, "conditions": [begun]})
    lists: dict[str, Any] = {"ips": "10.0.0.0,10.0.0.1,10.0.0.2", "number": 2}
    saves = sound(renew_from=2, grace=600, **lists)
    others = (
        listed(0, **lists),
        listed(2, **lists, ready=False, complaint="container di-container: Error: boom"),
    )
    seen = observed(*others, saves, services=frozenset({"job"}), list_seen=TOLD)
    for seconds, lost in ((300, False), (614, False), (615, True)):
        decided = plan(owner, seen, later(seconds)).status
        assert (
            decided.last_renewal is not None and decided.last_renewal.reason == "NotRestarted"
        ) is lost, seconds
    says = next(
        c for c in plan(owner, seen, later(300)).status.conditions if c.type == "PeersReady"
    )
    # A rank that is not Ready for another reason is reported, too.
    assert says.reason == "RankNotReady"
    assert "rank 1: its program has up to 600 s to exit" in says.message
    assert "rank 2: container di-container: Error: boom" in says.message
