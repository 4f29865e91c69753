"""Reports a training run that makes no progress: the condition ProgressStalled, and status.stall.

As long as the training makes progress, neither is in the status, and nothing is written.
"""

from dijob.api.status import Stall, Status, format_time
from dijob.core.decide.context import Context
from dijob.core.decide.stalls import awaits_stacks, describe_stall, due_stall, is_reported
from dijob.core.facts import Fact, find_condition, is_true
from dijob.core.members import format_ranks, parse_ranks
from dijob.core.membership.stalls import Standstill
from dijob.core.observed.grouping import group_causes
from dijob.core.observed.stacks import shorten_stack
from dijob.names import StallPolicy
from dijob.reasons import ProgressStalled

PROGRESSING = "the training is making progress again"
# The reasons that are replaced when the training makes progress again.
UNCLEAR = (ProgressStalled.Restarted.name, ProgressStalled.NotChecked.name)


def stall_facts(ctx: Context) -> list[Fact]:
    """Return the condition ProgressStalled if it is, or was, relevant. When the job fails, callers
    leave the stored condition unchanged, because it may explain the failure.
    """
    stall, stored = due_stall(ctx), find_condition(ctx.job.status, ProgressStalled)
    if stall and not ctx.next_status.suspend_time and not awaits_stacks(ctx):
        # The message does not change while the stall lasts, so it causes only one write.
        if is_reported(ctx) and stored:
            return [Fact(ProgressStalled[stored.reason], stored.message)]
        return [_new_stall(ctx, stall)]
    if stored is None:
        return []
    if stored.status == "True":
        return [_end_of_stall(ctx)]
    moves = ctx.stall is not None and ctx.stall.moved and stored.reason in UNCLEAR
    return [Fact(ProgressStalled.Progressing, PROGRESSING)] if moves else []


def with_stall(ctx: Context, status: Status) -> Status:
    """Return the new status, with status.stall set to match the condition ProgressStalled."""
    if status.ended and is_true(status, ProgressStalled):
        return status
    restarted = status.stall.restarted if status.stall else ""
    if is_true(status, ProgressStalled) and ctx.stall:
        since, iteration = format_time(ctx.stall.since), ctx.stall.iteration
        record: Stall | None = Stall(since=since, iteration=iteration, restarted=restarted)
    else:
        record = Stall(restarted=restarted) if restarted else None
    return status.model_copy(update={"stall": record})


def _new_stall(ctx: Context, stall: Standstill) -> Fact:
    spec, record = ctx.job.spec, ctx.job.status.stall
    message = f"{describe_stall(stall)}, stallSeconds is {spec.stall_seconds}"
    if record and record.restarted:
        ranks = format_ranks(parse_ranks(record.restarted))
        message += f"; the operator has already restarted {ranks}, and does so only once"
        return Fact(ProgressStalled.StalledAgain, f"{message}. {_describe_programs(ctx)}")
    if spec.stall_policy is StallPolicy.RESTART:
        message += _why_no_restart(ctx, stall)
    return Fact(ProgressStalled.NoProgress, f"{message}. {_describe_programs(ctx)}")


def _why_no_restart(ctx: Context, stall: Standstill) -> str:
    if not stall.direct:
        return "; no rank is restarted, because not all launchers are connected"
    if ctx.next_status.restarts >= ctx.job.spec.backoff_limit:
        return "; no rank is restarted, because backoffLimit allows no further failure"
    return ""


def _describe_programs(ctx: Context) -> str:
    """Return what the program of each rank is currently executing."""
    progress, meta = ctx.observed.progress.ranks, ctx.job.metadata
    ranks = ctx.world.unfinished
    if not any((one := progress.get(rank)) and one.stack for rank in ranks):
        return (
            f"To see what the programs are executing, run: kubectl dijob doctor {meta.name}"
            f" -n {meta.namespace} --stacks"
        )

    def find_place(rank: int) -> str:
        one = progress.get(rank)
        if one is None or not one.connected:
            return "its launcher is not connected"
        return shorten_stack(one.stack) if one.stack else "its program did not answer"

    return f"Main threads: {group_causes(ctx.world.gang, ranks, find_place)}"


def _end_of_stall(ctx: Context) -> Fact:
    old, new = ctx.job.status.stall, ctx.next_status.stall
    if new and new.restarted and not (old and old.restarted):
        ranks = format_ranks(parse_ranks(new.restarted))
        return Fact(ProgressStalled.Restarted, f"the operator restarts {ranks}, see AddressesReady")
    if ctx.stall is None or ctx.next_status.suspend_time:
        return Fact(
            ProgressStalled.NotChecked,
            "the time without progress is counted only while all ranks are running",
        )
    return Fact(ProgressStalled.Progressing, PROGRESSING)
