"""Accounts for the time of a job: how many seconds it has spent waiting, starting, running and
recovering, and what interrupted it.

The status contains the seconds of all past activities, and the start of the current one. So these
figures change only when the activity changes. They are updated only when something else in the
status changes, so they need no writes of their own. A reader adds the time of the current activity
(time_spent.py). Each plan computes the figures again from the stored status, so no time goes
uncounted after a restart of the operator or a lost write (docs/decisions/065).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dijob.api.status import (
    MOST_INTERRUPTIONS,
    Goodput,
    Interruption,
    Status,
    format_time,
    parse_time,
)
from dijob.core.decide.context import Context
from dijob.core.facts import find_condition, is_true
from dijob.core.members import compact_ranks, parse_ranks
from dijob.core.membership import capacity
from dijob.core.membership.list_state import SUSPENDED, ListState, list_state
from dijob.core.report.conditions import lagging_ranks
from dijob.core.report.milestones import CRASHED
from dijob.names import Activity
from dijob.reasons import PeersReady, Running, Suspended, Terminating

# The reason for an interruption in which no list became stale and no program failed.
NOT_READY = "NotReady"
MOST_CHARACTERS = 256
# About 32 years. A status with larger numbers is invalid (api/parse.py).
MOST_SECONDS = 1_000_000_000


@dataclass(frozen=True)
class Circumstances:
    """Facts that the status lacks: whether a required rank is waiting for room (a node or a quota),
    and which ranks are not Ready.
    """

    waits_for_room: bool = False
    lagging: frozenset[int] = frozenset()


def with_goodput(ctx: Context, status: Status) -> Status:
    """Return the new status. Its goodput figures are updated only if another part of the status has
    changed.
    """
    old = ctx.job.status
    # The figures alone are never a reason for a write.
    if status == old:
        return status
    circumstances = Circumstances(_waits_for_room(ctx), frozenset(lagging_ranks(ctx)))
    created = ctx.job.metadata.creation_timestamp
    figures = account_time(old, status, circumstances, created, ctx.now)
    return status.model_copy(update={"goodput": figures})


def account_time(
    old: Status, new: Status, circumstances: Circumstances, created: str, now: datetime
) -> Goodput | None:
    """Return the figures that belong to the new status. `created` is when the job was created."""
    figures = old.goodput or begin_count(old, created, now)
    if figures is None or figures.activity is Activity.ENDED:
        return figures
    activity = _next_activity(old, new, figures, waits=circumstances.waits_for_room)
    if activity is not figures.activity:
        figures = _change_activity(figures, activity, now)
    if activity is Activity.RECOVERING:
        figures = _explain_interruption(figures, old, new, circumstances.lagging)
    return figures


def begin_count(status: Status, created: str, now: datetime) -> Goodput | None:
    """Return a job's initial figures, in which no seconds have been counted. Return None if the
    job's time cannot be counted, because an older version of the operator has reported its end.
    """
    if status.ended:
        return None
    figures, since = Goodput(), created
    if status.phase:
        # An older version of the operator has written the status. If the job is running, its time
        # is counted from the moment when all its ranks became Ready. It is unknown how the job
        # spent the time before that moment.
        activity = _next_activity(status, status, figures, waits=False)
        peers = find_condition(status, PeersReady) if activity is Activity.RUNNING else None
        figures = figures.model_copy(update={"activity": activity})
        since = peers.last_transition_time if peers else ""
    begin = format_time(_whole(now) - timedelta(seconds=seconds_since(since, now)))
    return figures.model_copy(update={"since": begin, "activity_since": begin})


def seconds_since(time: str, now: datetime) -> int:
    """Return the whole seconds since a timestamp. The result is 0 if the time is in the future, or
    if the text is not a timestamp.
    """
    since = parse_time(time)
    passed = int((_whole(now) - since).total_seconds()) if since else 0
    return min(max(passed, 0), MOST_SECONDS)


def _whole(now: datetime) -> datetime:
    return now.replace(microsecond=0)


def _next_activity(old: Status, new: Status, figures: Goodput, *, waits: bool) -> Activity:
    """Return the job's activity according to the new status. `figures` contains the activity so
    far, and `waits` says whether the job is waiting for room.
    """
    before, peers = figures.activity, find_condition(new, PeersReady)
    reason = peers.reason if peers else ""
    # In a job that bypasses the launcher, the programs are running, although PeersReady is False.
    ready = is_true(new, PeersReady) or reason == PeersReady.LauncherBypassed.name
    if new.ended or (is_true(new, Terminating) and not ready):
        return Activity.ENDED
    if is_true(new, Suspended):
        return Activity.WAITING
    if ready:
        return Activity.RUNNING
    if is_true(new, Running):
        # A rank that joins is not Ready at first, and neither is a rank that is about to exit. The
        # other ranks keep working meanwhile.
        joins = before is Activity.RUNNING and reason == PeersReady.Starting.name
        return Activity.RUNNING if joins else Activity.RECOVERING
    if waits:
        return Activity.WAITING
    # A job that has found room after a loss continues to recover.
    stale = ListState.STALE in (list_state(old), list_state(new))
    resumes = before is Activity.WAITING and stale and figures.interruptions > 0
    interrupted = before in (Activity.RUNNING, Activity.RECOVERING) or resumes
    return Activity.RECOVERING if interrupted else Activity.STARTING


def _change_activity(figures: Goodput, activity: Activity, now: datetime) -> Goodput:
    """Add the seconds of the activity that ends, and begin the next one."""
    seconds = seconds_since(figures.activity_since, now)
    # If the clock has been set back, the next activity gets the start time of the previous one. So
    # the sum of all seconds is always the time from the first timestamp to the last one.
    known = parse_time(figures.activity_since)
    begin = figures.activity_since if known and not seconds else format_time(now)
    field = f"{figures.activity.lower()}_seconds"
    update: dict[str, Any] = {field: _limit(getattr(figures, field) + seconds)}
    past = figures.last_interruptions
    if figures.activity is Activity.RECOVERING and past:
        last = past[-1].model_copy(update={"seconds": _limit(past[-1].seconds + seconds)})
        past = (*past[:-1], last)
    # A recovery that follows a wait for room (a node or a quota) is part of the last interruption.
    if activity is Activity.RECOVERING and figures.activity is not Activity.WAITING:
        update["interruptions"] = _limit(figures.interruptions + 1)
        past = (*past, Interruption(time=begin))[-MOST_INTERRUPTIONS:]
    update |= {"activity": activity, "activity_since": begin, "last_interruptions": past}
    return figures.model_copy(update=update)


def _limit(seconds: int) -> int:
    return min(seconds, MOST_SECONDS)


def _explain_interruption(
    figures: Goodput, old: Status, new: Status, lagging: frozenset[int]
) -> Goodput:
    """Add the cause and the ranks of the current interruption. A second loss before the job has
    recovered extends the interruption, and the first cause is kept.
    """
    known = figures.last_interruptions[-1:] or (Interruption(time=figures.activity_since),)
    last, loss = known[0], new.last_renewal
    crashed = new.restarts > old.restarts
    if loss and loss.reason != SUSPENDED and loss != old.last_renewal:
        reason, lost, ranks = loss.reason, parse_ranks(loss.lost), parse_ranks(loss.ranks)
    elif crashed or not last.reason:
        reason, lost, ranks = CRASHED if crashed else NOT_READY, lagging, lagging
    else:
        return figures
    vague = last.reason in ("", NOT_READY)
    ranks |= parse_ranks(last.ranks)
    update = {
        "reason": reason if vague else last.reason,
        "lost": _bounded(lost | parse_ranks(last.lost)),
        "ranks": "" if last.reason and not last.ranks else _bounded(ranks),
    }
    explained = last.model_copy(update=update)
    past = (*figures.last_interruptions[:-1], explained)
    return figures.model_copy(
        update={"last_interruptions": past, "interruptions": max(figures.interruptions, 1)}
    )


def _bounded(ranks: frozenset[int]) -> str:
    """Format ranks. If there are too many ranges, return a single range from the lowest rank to the
    highest.
    """
    text = compact_ranks(ranks)
    return text if len(text) <= MOST_CHARACTERS else f"{min(ranks)}-{max(ranks)}"


def _waits_for_room(ctx: Context) -> bool:
    """Whether the job is waiting for room.

    This is the case if a rank that the job needs has found no node, or no room in a quota. It is
    also the case if the job has released its capacity and is waiting for the next attempt.
    """
    needed, rejections = ctx.rendezvous.required_size, ctx.observed.rejections
    names = (f"pod/{ctx.world.gang.member(rank).name}" for rank in ctx.world.missing)
    quota = any((found := rejections.get(name)) and found.of_quota for name in names)
    pause = capacity.seconds_until_retry(ctx.next_status, ctx.now) > 0
    return pause or quota or any(rank < needed for rank in ctx.rendezvous.unschedulable)
