"""A training that makes no progress (spec.stallSeconds): when it is reported, what is asked, and
when the slowest ranks restart.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from dijob.api.model import DIJob
from dijob.api.status import Stall, format_time
from dijob.core.actions import AskStack
from dijob.core.decide.stalls import PATIENCE_SECONDS
from dijob.core.observed.progress import JobProgress, RankProgress
from dijob.core.observed.views import Observed, Pod
from dijob.core.plan import Plan
from samples.builders import (
    NOW,
    all_run,
    conditions_of,
    job,
    later,
    listed,
    observed,
    paused,
    running,
    says,
    stored,
    then,
    view,
)

LIMIT = 100
PATIENCE = int(PATIENCE_SECONDS)
STACK = """Current thread 0x00007f (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 327 in wait
  File "/usr/lib/python3.12/queue.py", line 180 in get
  File "/usr/lib/python3.12/site-packages/ding/framework/task.py", line 9 in forward
  File "/usr/lib/python3.12/site-packages/ding/framework/task.py", line 5 in run
  File "/work/train.py", line 12 in main
  File "/work/train.py", line 20 in <module>
"""
SHORT = (
    "wait (threading.py:327) < get (queue.py:180) < forward (task.py:9) < ... < main (train.py:12)"
)


def rank(moved: float | None = 0, **fields: Any) -> RankProgress:
    at = None if moved is None else later(moved)
    return RankProgress(**{"connected": True, "moved": at, "iteration": 7, **fields})


def progress(*ranks: RankProgress | None, reported: str = "", iteration: int = 7) -> JobProgress:
    known = {at: one for at, one in enumerate(ranks) if one is not None}
    return JobProgress(reported, iteration, known)


# Rank 0 trains. The others collect data, and report no progress.
STANDS = progress(rank(), rank(None), rank(None))
ANSWERED = progress(
    rank(asked=True, stack=STACK), *[rank(None, asked=True, stack="") for _ in range(2)]
)


@dataclass
class Story:
    """A running job whose operator keeps nothing between two plans."""

    owner: DIJob
    writes: int = 0

    def see(self, seconds: float, known: JobProgress, pods: list[Pod] | None = None) -> Plan:
        seen = observed(*(all_run(self.owner) if pods is None else pods), progress=known)
        decided, owner = then(self.owner, seen, seconds)
        self.writes += decided.status != self.owner.status
        self.owner = owner
        return decided

    def settle(self, seconds: float, known: JobProgress) -> Plan:
        """Plan until the operator waits."""
        while True:
            decided = self.see(seconds, known)
            if decided.requeue_after:
                return decided


def story(**spec: Any) -> Story:
    return Story(running(**{"stallSeconds": LIMIT, **spec}))


def stalled(decided: Plan) -> tuple[str, str] | None:
    return says(decided).get("ProgressStalled")


def message(decided: Plan) -> str:
    return conditions_of(decided)["ProgressStalled"].message


def test_a_training_without_progress_is_reported_once_with_its_stacks() -> None:
    told = story()
    before = told.see(LIMIT - 1, STANDS)
    assert (stalled(before), before.actions) == (None, ())
    assert before.requeue_after == pytest.approx(1.5)
    due = told.see(LIMIT, STANDS)
    assert due.actions == tuple(AskStack(f"job-{n}", f"uid-{n}") for n in range(3))
    assert (stalled(due), told.writes) == (None, 0)
    found = told.see(LIMIT + 1, ANSWERED)
    assert stalled(found) == ("True", "NoProgress")
    assert message(found) == (
        "no progress since 2026-05-04T12:00:00Z (iteration 7), stallSeconds is 100. Main threads:"
        f" rank 0: {SHORT}; each of ranks 1-2: its program did not answer"
    )
    assert found.status.stall == Stall(since=format_time(NOW), iteration=7)
    assert found.status.message.startswith("no progress since 2026-05-04T12:00:00Z (iteration 7)")
    assert [(one.reason, one.warning) for one in found.events] == [("NoProgress", True)]
    later_on = told.see(LIMIT + 500, ANSWERED)
    assert (later_on.actions, told.writes) == ((), 1)


def test_a_job_that_makes_progress_causes_no_write() -> None:
    told = story()
    for seconds in range(0, 1000, 90):
        decided = told.see(seconds, progress(rank(seconds - 5), iteration=seconds))
        assert (decided.actions, stalled(decided)) == ((), None)
    assert told.writes == 0


def test_a_job_without_the_field_is_not_judged() -> None:
    decided, _ = then(running(), observed(*all_run(running()), progress=STANDS), 10**6)
    assert (stalled(decided), decided.actions) == (None, ())


# The state of the job, and what is known about its progress after twice the limit.
QUIET: dict[str, tuple[Callable[[DIJob], tuple[DIJob, list[Pod]]], JobProgress]] = {
    "no progress was ever reported": (lambda owner: (owner, all_run(owner)), progress(rank(None))),
    "a rank is lost": (lambda owner: (owner, all_run(owner)[:2]), STANDS),
    "a rank is not Ready": (
        lambda owner: (owner, [*all_run(owner)[:2], listed(2, owner, ready=False)]),
        STANDS,
    ),
    "it is suspended": (
        lambda owner: (
            DIJob(
                metadata=owner.metadata,
                spec=owner.spec.model_copy(update={"suspend": True}),
                status=owner.status,
            ),
            all_run(owner),
        ),
        STANDS,
    ),
    "it has not started": (lambda owner: (job(stallSeconds=LIMIT), [view(0)]), STANDS),
}


@pytest.mark.parametrize(("state", "known"), QUIET.values(), ids=QUIET)
def test_no_time_counts_while(
    state: Callable[[DIJob], tuple[DIJob, list[Pod]]], known: JobProgress
) -> None:
    owner, pods = state(running(stallSeconds=LIMIT, stallPolicy="Restart"))
    told = Story(owner)
    for _ in range(3):
        decided = told.see(2 * LIMIT, known, pods)
        assert stalled(decided) is None
        assert not any(isinstance(one, AskStack) for one in decided.actions)


def test_a_rank_that_is_not_ready_starts_the_time_again() -> None:
    told = story()
    lacking = [*all_run(told.owner)[:2], listed(2, told.owner, ready=False)]
    for seconds in (LIMIT - 20, LIMIT + 50):
        told.see(seconds, STANDS, lacking)
    told.settle(LIMIT + 70, STANDS)
    assert stalled(told.settle(2 * LIMIT + 60, STANDS)) is None
    assert stalled(told.settle(2 * LIMIT + 80, ANSWERED)) == ("True", "NoProgress")


def test_after_a_restart_the_time_counts_although_no_program_has_reported_again() -> None:
    """Programs that hang in a rendezvous report nothing."""
    silent = progress(*[rank(None, asked=True, stack=STACK)] * 3, reported=format_time(later(-50)))
    assert stalled(story().settle(LIMIT + 1, silent)) == ("True", "NoProgress")


def test_after_the_end_of_the_rank_that_trains_the_others_have_time_to_end() -> None:
    told = story()
    done = listed(0, told.owner, succeeded=True, ready=False)
    pods = [done, *all_run(told.owner)[1:]]
    known = progress(rank(), rank(None), rank(None), reported=format_time(NOW))
    for seconds in (10, 2 * LIMIT, 3 * LIMIT):
        assert stalled(told.see(seconds, known, pods)) is None


def test_without_an_answer_the_stall_is_reported_after_some_seconds() -> None:
    told = story()
    assert stalled(told.settle(LIMIT + 1, progress(rank(asked=True)))) is None
    found = told.settle(LIMIT + PATIENCE, progress(rank(asked=True)))
    assert message(found).endswith("run: kubectl dijob doctor job -n ns --stacks")


UNREACHABLE = {
    "without a channel": progress(None, reported=format_time(NOW)),
    "after a lost connection": progress(rank(connected=False), rank(None), rank(None)),
    "with a new operator": progress(*[rank(None, connected=False)] * 3, reported=format_time(NOW)),
}


@pytest.mark.parametrize("known", UNREACHABLE.values(), ids=UNREACHABLE)
def test_silence_of_the_launchers_is_reported_but_restarts_nothing(known: JobProgress) -> None:
    told = story(stallPolicy="Restart")
    found = told.settle(LIMIT + PATIENCE, known)
    assert stalled(found) == ("True", "NoProgress")
    assert "no rank is restarted, because not all launchers are connected" in message(found)
    assert told.owner.status.restarts == 0


def test_progress_ends_the_stall() -> None:
    told = story()
    told.settle(LIMIT + 1, ANSWERED)
    found = told.settle(LIMIT + 20, progress(rank(LIMIT + 15), iteration=8))
    assert stalled(found) == ("False", "Progressing")
    assert told.owner.status.stall is None
    writes = told.writes
    told.settle(LIMIT + 90, progress(rank(LIMIT + 85), iteration=9))
    assert told.writes == writes


def test_a_new_operator_neither_repeats_nor_forgets_the_report() -> None:
    told = story()
    first = told.settle(LIMIT + 1, ANSWERED)
    writes = told.writes
    # It learns the same time again, in whole seconds, and has asked nothing.
    again = told.settle(LIMIT + 9, progress(rank(1.4), rank(None), rank(None)))
    assert (again.actions, told.writes, message(again)) == ((), writes, message(first))


def test_the_slowest_rank_restarts_once_and_this_counts() -> None:
    told = story(stallPolicy="Restart")
    seen: list[Plan] = []
    while not told.owner.status.restarts:
        seen.append(told.see(LIMIT + 1, ANSWERED))
    # The report is stored first, with the stacks.
    assert [stalled(one) for one in seen] == [("True", "NoProgress"), ("False", "Restarted")]
    status = told.owner.status
    assert status.last_renewal
    assert status.stall
    assert status.first_failure
    assert (status.last_renewal.reason, status.last_renewal.lost) == ("ProgressStalled", "0")
    assert status.last_renewal.message == (
        "rank 0: no progress since 2026-05-04T12:00:00Z (iteration 7), and stallPolicy is Restart"
    )
    assert (status.restarts, status.stall.restarted) == (1, "0")
    assert (status.first_failure.rank, status.first_failure.reason) == (0, "ProgressStalled")
    assert status.last_renewal.ranks == "0-2"  # ranks 1 and 2 dial rank 0


def test_a_second_stall_is_only_reported() -> None:
    told = story(stallPolicy="Restart")
    status = told.owner.status.model_copy(update={"stall": Stall(restarted="0"), "restarts": 1})
    told.owner = DIJob(metadata=told.owner.metadata, spec=told.owner.spec, status=status)
    found = told.settle(LIMIT + PATIENCE, ANSWERED)
    assert stalled(found) == ("True", "StalledAgain")
    assert "the operator has already restarted rank 0, and does so only once" in message(found)
    assert told.owner.status.restarts == 1
    assert told.owner.status.stall == Stall(since=format_time(NOW), iteration=7, restarted="0")


def test_no_restart_fails_the_job() -> None:
    told = story(stallPolicy="Restart", backoffLimit=1)
    status = told.owner.status.model_copy(update={"restarts": 1})
    told.owner = DIJob(metadata=told.owner.metadata, spec=told.owner.spec, status=status)
    found = told.settle(LIMIT + PATIENCE, ANSWERED)
    assert "no rank is restarted, because backoffLimit allows no further failure" in message(found)
    assert (told.owner.status.restarts, told.owner.status.phase) == (1, "Running")


def test_a_paused_job_is_reported_and_not_restarted() -> None:
    told = story(stallPolicy="Restart")
    told.owner = paused(told.owner)
    for _ in range(3):
        decided = told.see(LIMIT + PATIENCE, ANSWERED)
    assert (stalled(decided), told.owner.status.restarts) == (("True", "NoProgress"), 0)


SLOWEST = {
    "the only one that trains": ((rank(), rank(None), rank(None)), "0"),
    "the lowest iteration": ((rank(iteration=9), rank(iteration=8), rank(iteration=9)), "1"),
    "the longest time": ((rank(-1), rank(-3), rank(-2)), "1"),
    "those that send no data": (
        (rank(waiting_percent=97), rank(None), rank(None)),
        "1-2",
    ),
    "the one that waits, if all train": ((rank(-1, waiting_percent=97), rank(-5)), "1"),
    "all, if none has reported": ((rank(None), rank(None), rank(None)), "0-2"),
}


@pytest.mark.parametrize(("ranks", "lost"), SLOWEST.values(), ids=SLOWEST)
def test_the_ranks_that_restart(ranks: tuple[RankProgress, ...], lost: str) -> None:
    told = story(stallPolicy="Restart")
    answered = [replace(one, asked=True, stack=STACK) for one in ranks]
    answered += [rank(None, asked=True, stack="") for _ in range(3 - len(answered))]
    for _ in range(3):
        told.see(LIMIT + 1, progress(*answered, reported=format_time(later(-9))))
        if told.owner.status.restarts:
            break
    assert told.owner.status.stall
    assert told.owner.status.stall.restarted == lost


def test_all_ranks_of_a_world_with_fixed_members_restart() -> None:
    owner = running(stallSeconds=LIMIT, stallPolicy="Restart", restart={"scope": "Job"})
    told = Story(owner)
    while not told.owner.status.restarts:
        told.see(LIMIT + 1, ANSWERED)
    assert told.owner.status.last_renewal
    assert told.owner.status.last_renewal.ranks == "0-2"


@pytest.mark.parametrize(
    ("end", "condition"),
    [("Failed", ("True", "NoProgress")), ("Succeeded", ("False", "NotChecked"))],
    ids=["failed", "succeeded"],
)
def test_the_condition_stays_if_it_may_explain_the_end(
    end: str, condition: tuple[str, str]
) -> None:
    told = story(activeDeadlineSeconds=LIMIT + 8)
    told.settle(LIMIT + 1, ANSWERED)
    done = [listed(n, told.owner, succeeded=True, ready=False) for n in range(3)]
    for _ in range(3):
        pods = done if end == "Succeeded" else all_run(told.owner)
        decided = told.see(LIMIT + 9, STANDS, pods)
    assert decided.status.phase == end
    assert stalled(decided) == condition
    assert bool(decided.status.stall) is (end == "Failed")


def test_a_suspension_ends_the_judgement() -> None:
    told = story()
    told.settle(LIMIT + 1, ANSWERED)
    seen: Observed = observed(*all_run(told.owner), progress=ANSWERED)
    decided, owner = then(told.owner, seen, LIMIT + 9, suspend=True)
    assert stalled(decided) == ("False", "NotChecked")
    assert stored(owner, decided).status.stall is None
