"""Decides what to do about a training run that makes no progress.

The operator asks the launchers for the stacks of their programs, and restarts the slowest ranks
once if stallPolicy says so.

The stall is reported in the status first (report/stalls.py). A later status write records the
restart as a loss, and increases the number of restarts. So if the operator is killed, the restart
is neither lost nor repeated.
"""

from collections.abc import Iterator
from dataclasses import replace

from dijob.api.status import FirstFailure, Stall, format_time
from dijob.core.actions import AskStack
from dijob.core.decide.context import Context
from dijob.core.facts import is_true
from dijob.core.members import compact_ranks, format_ranks
from dijob.core.membership import gang_restart
from dijob.core.membership.losses import Loss
from dijob.core.membership.stalls import Standstill, is_counted, slowest_ranks
from dijob.names import StallPolicy
from dijob.reasons import AddressesReady, ProgressStalled

# The report waits this long for the launchers' answers, so that a single write can contain
# everything.
PATIENCE_SECONDS = 15.0
# Stored times are truncated to seconds.
STAMPED_SECONDS = 0.5
# The operator checks for new progress after this time, in case no launcher reports it.
LOOK_AGAIN_SECONDS = 60.0


def due_stall(ctx: Context) -> Standstill | None:
    """Return the stall if the training has made no progress for stallSeconds; else None."""
    limit, stall = ctx.job.spec.stall_seconds, ctx.stall
    return stall if limit is not None and stall and stall.seconds >= limit else None


def is_reported(ctx: Context) -> bool:
    """Whether the stored status reports the current stall."""
    stall = due_stall(ctx)
    return stall is not None and stall.known and is_true(ctx.job.status, ProgressStalled)


def awaits_stacks(ctx: Context) -> bool:
    """Whether the operator must wait for the programs' stacks before it reports a stall."""
    stall, limit = due_stall(ctx), ctx.job.spec.stall_seconds or 0
    if stall is None or is_reported(ctx) or stall.seconds >= limit + PATIENCE_SECONDS:
        return False
    known = (ctx.observed.progress.ranks.get(rank) for rank in ctx.world.unfinished)
    return any(one.connected and one.stack is None for one in known if one)


def ask_stacks(ctx: Context) -> tuple[AskStack, ...]:
    """Ask each connected launcher for its program's stacks, unless it has already been asked."""
    if not awaits_stacks(ctx):
        return ()
    ranks, pods = ctx.observed.progress.ranks, ctx.world.pods
    return tuple(
        AskStack(pods[rank].name, pods[rank].uid)
        for rank in ctx.world.unfinished
        if rank in pods and (one := ranks.get(rank)) and one.connected and not one.asked
    )


def stall_loss(ctx: Context) -> Loss | None:
    """Return the loss that makes the slowest ranks restart; None if no restart is due.

    The operator restarts ranks only while the launchers of all ranks are connected: a lack of
    reports then means that there is no progress. If the restart would exceed backoffLimit, no rank
    is restarted: the job is reported as stalled rather than failed.
    """
    status, stall = ctx.job.status, due_stall(ctx)
    if ctx.job.spec.stall_policy is not StallPolicy.RESTART or stall is None:
        return None
    again = (status.stall is not None and status.stall.restarted) or not is_reported(ctx)
    if again or not stall.direct or ctx.next_status.restarts >= ctx.job.spec.backoff_limit:
        return None
    slow = slowest_ranks(ctx.world, ctx.observed.progress)
    everybody = gang_restart.all_ranks(ctx.world)
    ranks = everybody & gang_restart.restarting_with(ctx.world, slow)
    if ctx.world.gang.renews_all_on_loss:
        ranks = everybody
    message = f"{format_ranks(slow)}: {describe_stall(stall)}, and stallPolicy is Restart"
    return Loss(AddressesReady.ProgressStalled, message, ranks, slow)


def record_restart(ctx: Context, loss: Loss) -> Context:
    """Count the restart as a failure in the returned context, and record it so that it is not
    repeated.
    """
    status, rank = ctx.next_status, min(loss.lost)
    stall = (status.stall or Stall()).model_copy(update={"restarted": compact_ranks(loss.lost)})
    pod = ctx.world.pods.get(rank)
    first = status.first_failure or FirstFailure(
        rank=rank,
        pod=pod.name if pod else "",
        node=pod.placement.node if pod else "",
        reason=loss.reason.name,
        message=loss.message,
        time=format_time(ctx.now),
    )
    update = {"stall": stall, "restarts": status.restarts + 1, "first_failure": first}
    return replace(ctx, next_status=status.model_copy(update=update))


def describe_stall(stall: Standstill) -> str:
    """Describe when progress stopped, and at which iteration."""
    at = f" (iteration {stall.iteration})" if stall.iteration is not None else ""
    return f"no progress since {format_time(stall.since)}{at}"


def waits(ctx: Context) -> Iterator[float]:
    """Yield the seconds until a stall must be reported, or until it may be over."""
    limit, stall = ctx.job.spec.stall_seconds, ctx.stall
    if limit is None or not is_counted(ctx.job, ctx.world):
        return
    if stall is None:  # the HTTP server may have received the first progress report
        yield max(float(limit), LOOK_AGAIN_SECONDS)
    elif stall.seconds < limit:
        yield limit - stall.seconds + STAMPED_SECONDS
    elif awaits_stacks(ctx):
        yield limit + PATIENCE_SECONDS - stall.seconds + STAMPED_SECONDS
    else:
        yield LOOK_AGAIN_SECONDS
