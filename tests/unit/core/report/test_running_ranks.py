"""What a running job reports about its ranks: which are not Ready, which have finished, and which
have crashed before.
"""

from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.status import format_time
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Pod
from samples.builders import (
    NOW,
    changed,
    conditions_of,
    hands_out,
    later,
    listed,
    observed,
    plan,
    running,
    say,
    stored,
)
from samples.statuses import CRASH


def peers(owner: DIJob, *pods: Pod, seconds: float = 0) -> tuple[str, str]:
    """Return reason and message of PeersReady, and check that the job is reconciled in time."""
    decided = plan(owner, observed(*pods, services=frozenset({"job"})), later(seconds))
    found = conditions_of(decided)["PeersReady"]
    return found.reason, found.message


def test_a_rank_that_is_not_ready_is_a_problem_after_a_minute() -> None:
    """A rank that is about to exit has closed its port, and a rank that joins is still starting."""
    pods = (listed(0), listed(1), listed(2, ready=False))
    decided = plan(running(), observed(*pods, services=frozenset({"job"})), NOW)
    owner = stored(running(), decided)
    said = "rank 2: its program is running but not Ready:"
    usual, log = "it may be starting or exiting", "kubectl logs job-2 may show why"
    assert decided.requeue_after == 60.5
    assert peers(owner, *pods, seconds=59) == ("Starting", f"{said} {usual}")
    assert peers(owner, *pods, seconds=60) == ("RankNotReady", f"{said} {log}")
    owner = stored(owner, plan(owner, observed(*pods, services=frozenset({"job"})), later(60)))
    assert plan(owner, observed(*pods, services=frozenset({"job"})), later(61)).requeue_after == 300


NOT_READY = {
    "lost": (
        (listed(0), listed(1)),
        "Renewing",
        "rank 2: its pod is gone; rank 2 restarts, and the other ranks keep running",
    ),
    "crashed": (
        (listed(0), listed(1), listed(2, ready=False, last_end=CRASH, ended=format_time(NOW))),
        "RankNotReady",
        "rank 2: its program exited 3: no GPU, and is restarting",
    ),
    "complains": (
        (
            listed(0),
            listed(1),
            listed(2, ready=False, complaint="container di-container exited 1: boom"),
        ),
        "RankNotReady",
        "rank 2: container di-container exited 1: boom",
    ),
    "its last process crashed long ago": (
        (
            listed(0),
            listed(1),
            listed(2, ready=False, last_end=CRASH, ended=format_time(later(-60))),
        ),
        "Starting",
        "rank 2: its program is running but not Ready: it may be starting or exiting",
    ),
}


@pytest.mark.parametrize(("pods", "reason", "words"), NOT_READY.values(), ids=NOT_READY)
def test_the_reason_why_ranks_are_no_longer_ready(
    pods: tuple[Pod, ...], reason: str, words: str
) -> None:
    assert peers(running(), *pods) == (reason, words)


def done(rank: int) -> Pod:
    return listed(rank, ready=False, succeeded=True, ended=format_time(NOW))


FINISHED = {
    "one": (
        (listed(0), listed(1), done(2)),
        "2 of 3 ranks are running, rank 2 has finished (at 2026-05-04T12:00:00Z)",
    ),
    "two": (
        (listed(0), done(1), done(2)),
        "1 of 3 ranks is running, ranks 1-2 have finished (at 2026-05-04T12:00:00Z)",
    ),
}


def test_a_rank_that_is_not_ready_after_others_have_finished_is_probably_ending() -> None:
    """P12: it has closed its port, and its container ends a moment later."""
    reason, message = peers(running(), listed(0, ready=False), listed(1), done(2))
    assert reason == "Starting"
    assert message == (
        "rank 0: its program is running but not Ready: it is probably exiting, because rank 2 has"
        " finished"
    )


@pytest.mark.parametrize(("pods", "words"), FINISHED.values(), ids=FINISHED)
def test_finished_ranks_are_reported_with_what_ends_the_job(
    pods: tuple[Pod, ...], words: str
) -> None:
    said = say(observed(*pods), running())
    assert said["Running"].message == f"{words}; the job ends when all ranks have exited 0"
    first = say(observed(*pods), running(successPolicy="Rank0"))
    assert first["Running"].message.endswith("; the job ends when rank 0 has exited 0")


CRASHED_BEFORE: dict[str, Any] = {"restarts": 2, "ended": format_time(NOW)}
AT = "2026-05-04T12:00:00Z"
BOOM = ContainerEnding(1, 0, "Error", "boom", at=AT)
RECOVERED: dict[str, tuple[Pod, str]] = {
    "its program crashed in its pod": (
        listed(1, failures=2, last_end=BOOM, **CRASHED_BEFORE),
        f"2 failures so far, the last at {AT}: rank 1: its program exited 1: boom",
    ),
    "its last termination was a restart for another image": (
        listed(1, failures=2, last_end=BOOM, first_shape="a", shape="b", **CRASHED_BEFORE),
        "1 failure so far",
    ),
}


@pytest.mark.parametrize(("pod", "words"), RECOVERED.values(), ids=RECOVERED)
def test_failures_are_reported_while_all_ranks_run(pod: Pod, words: str) -> None:
    said = say(observed(listed(0), pod, listed(2)), running())["Running"]
    assert (said.status, said.message) == ("True", f"all 3 ranks are running; {words}")


def test_a_failure_that_restarted_all_ranks_is_reported_afterwards() -> None:
    owner = running(restart={"scope": "Job"})
    failed = listed(1, owner, phase="Failed", ready=False, broken=True, failures=1, last_end=BOOM)
    loss = plan(owner, observed(listed(0, owner), failed, listed(2, owner)), later(1))
    again = [listed(rank, owner, uid=f"n{rank}", number=2) for rank in range(3)]
    owner = stored(owner, loss)
    told = hands_out(
        owner, observed(*(changed(p, number=0, ips="", ready=False) for p in again)), later(30)
    )
    said = conditions_of(plan(stored(owner, told), observed(*again), later(40)))["Running"]
    assert said.message == (
        "all 3 ranks are running; 1 failure so far, the last at 2026-05-04T12:00:01Z:"
        " rank 1: pod job-1 failed (exited 1: boom)"
    )
