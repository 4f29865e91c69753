"""Starts a re-rendezvous: records in the status which peer list is stale, why, and for which ranks.

The record is written before any action. So if the operator is killed in between, the reason why
ranks restart is not lost, and the same loss is not counted twice.
"""

from dataclasses import replace

from dijob.api.status import Renewal, format_time
from dijob.core.decide.context import Context
from dijob.core.members import compact_ranks, format_ranks
from dijob.core.membership import gang_restart
from dijob.core.membership.list_state import ListState
from dijob.core.membership.losses import Loss
from dijob.core.observed.endings import describe_failed_part, how_it_ended
from dijob.names import FailureAction
from dijob.reasons import AddressesReady


def restart_job_loss(ctx: Context) -> Loss | None:
    """If the failure policy's action for a new failure is RestartJob, return a loss of all ranks.
    Return None if there is no such failure, or if no rank has started.
    """
    asked = [
        rank for rank, action in ctx.new_failures.items() if action is FailureAction.RESTART_JOB
    ]
    if not asked or ctx.world.no_rank_runs:
        return None
    message = f"{describe_rule(ctx, asked[0])} says RestartJob"
    ranks = gang_restart.all_ranks(ctx.world)
    return Loss(AddressesReady.FailurePolicy, message, ranks, frozenset(asked))


def describe_rule(ctx: Context, rank: int) -> str:
    """Describe a failure and the rule of the failure policy that matches it. If no rule matches,
    name the runtime, whose default applies.
    """
    pod = ctx.world.pods[rank]
    ending = pod.containers.last_end
    end = ending.words if ending else how_it_ended(None, None, "", pod.complaint)
    what = describe_failed_part(rank, ending.container if ending else "")
    at = ctx.policy.rule(pod)
    rule = f"runtime: {ctx.job.spec.runtime}" if at is None else f"failurePolicy.rules[{at}]"
    return f"{what} {end}, and {rule}"


def size_change_loss(ctx: Context) -> Loss | None:
    """If the job was resized, but its programs cannot gain or lose members while they run, return a
    loss of all ranks; else None.
    """
    world, size = ctx.world, ctx.rendezvous.next_size
    if not (world.gang.renews_all_on_loss and world.list_is_active and size) or size == world.size:
        return None
    message = f"replicas changed from {world.size} to {size}"
    return Loss(AddressesReady.Scaled, message, gang_restart.all_ranks(world))


def record_loss(ctx: Context, loss: Loss) -> Context:
    """Return the context with the loss recorded in its status, and with the resulting world."""
    world = ctx.world
    # Ranks that a scale-down has removed are included if their pods still have the list: a scale-up
    # may need these ranks before the pods are gone.
    ranks = loss.ranks | world.ranks_to_recreate
    renewal = Renewal(
        list_number=world.address_list.number,
        reason=loss.reason.name,
        message=loss.message + _taken_along(ctx),
        ranks=compact_ranks(ranks),
        lost=compact_ranks(loss.lost),
        time=format_time(ctx.now),
    )
    lasting = gang_restart.lasting_successes(world)
    update = {
        "last_renewal": renewal,
        # A second loss before the next list extends this re-rendezvous and is not counted again.
        "renewals": ctx.next_status.renewals + (1 if world.list_is_active else 0),
        "succeeded_ranks": compact_ranks(lasting),
    }
    status = ctx.next_status.model_copy(update=update)
    dead = replace(world, state=ListState.STALE, renewing=ranks, succeeded=lasting)
    return replace(ctx, world=dead, next_status=status)


def _taken_along(ctx: Context) -> str:
    """Describe the ranks that restart although they had succeeded; "" if there are none."""
    ranks = ctx.world.succeeded - gang_restart.lasting_successes(ctx.world)
    if not ranks:
        return ""
    verb = "restarts" if len(ranks) == 1 else "restart"
    return f"; {format_ranks(ranks)}, which had succeeded, {verb} as well"
