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


def failure_loss(ctx: Context) -> Loss | None:
    """Return a Loss with the ranks that restart because of a new failure.

    If the failure policy's action is RestartJob, all ranks restart. Otherwise, the group of a
    failed rank restarts. Return None if there is no such failure, or if no rank has started.
    """
    asked = [
        rank for rank, action in ctx.new_failures.items() if action is FailureAction.RESTART_JOB
    ]
    if ctx.world.no_rank_runs:
        return None
    if not asked:
        return _group_loss(ctx)
    message = f"{describe_rule(ctx, asked[0])} says RestartJob"
    ranks = gang_restart.all_ranks(ctx.world)
    return Loss(AddressesReady.FailurePolicy, message, ranks, frozenset(asked))


def _group_loss(ctx: Context) -> Loss | None:
    """Return a Loss with the groups in which a rank has failed. A group that is already restarting
    does not restart again. A rank that has not joined its group yet restarts alone.
    """
    world, pods = ctx.world, ctx.world.pods
    failed = [
        rank
        for rank in ctx.new_failures
        if rank not in world.renewing
        and rank < world.listed_size
        and ctx.policy.failing_group(pods[rank]) is not None
    ]
    if not failed:
        return None
    ranks = gang_restart.all_ranks(world)
    if not world.gang.renews_all_on_loss:
        ranks &= world.renewing | gang_restart.restarting_with(world, frozenset(failed))
    message = f"{describe_rule(ctx, failed[0])} restarts the whole task"
    return Loss(AddressesReady.PodFailed, message, ranks)


def describe_rule(ctx: Context, rank: int) -> str:
    """Describe a failure and the rule of the failure policy that matches it. If no rule matches,
    name the runtime instead, because its default applies.
    """
    pod = ctx.world.pods[rank]
    ending = pod.containers.last_end
    end = ending.words if ending else how_it_ended(None, None, "", pod.complaint)
    what = describe_failed_part(rank, ending.container if ending else "")
    at = ctx.policy.rule(pod)
    runtime = f"runtime: {ctx.world.gang.runtime_of(rank)}"
    rule = runtime if at is None else f"failurePolicy.rules[{at}]"
    return f"{what} {end}, and {rule}"


def size_change_loss(ctx: Context) -> Loss | None:
    """Return a Loss with the ranks that must restart because of a resize; None if there are none.

    A rank must restart if its program cannot gain or lose members while it runs.
    """
    world, size = ctx.world, ctx.rendezvous.next_size
    if world.list_is_stale:
        return _group_size_change(ctx)
    if not (world.list_is_active and size) or size == world.size:
        return None
    ranks = gang_restart.all_ranks(world)
    if not world.gang.renews_all_on_loss:
        # Only the last task can be resized.
        ranks &= gang_restart.restarting_with(world, gang_restart.last_group(world))
    message = f"replicas changed from {world.size} to {size}"
    return Loss(AddressesReady.Scaled, message, ranks) if ranks else None


def _group_size_change(ctx: Context) -> Loss | None:
    """Return a Loss if the size of a running group changes while other ranks restart; else None.

    The next list of the restarting ranks also changes the size of this group, so the group must
    restart too. The loss includes the ranks that are already restarting.
    """
    world, was = ctx.world, ctx.world.listed_size
    # The pods of ranks that are no longer desired are deleted before the next list is published.
    size = min(ctx.rendezvous.next_size or was, world.gang.size)
    group = gang_restart.last_group(world)
    if size == was or group.isdisjoint(world.survivors):
        return None
    ranks = gang_restart.all_ranks(world) & gang_restart.restarting_with(world, group)
    message = f"replicas changed from {was} to {size}"
    return Loss(AddressesReady.Scaled, message, ranks | world.renewing)


def record_loss(ctx: Context, loss: Loss) -> Context:
    """Return the context with the loss recorded in its status, and with the resulting world."""
    world = ctx.world
    # Ranks that a scale-down has removed are included if their pods still have the list: a scale-up
    # may need these ranks before the pods are gone.
    ranks = loss.ranks | world.ranks_to_recreate
    lasting = gang_restart.lasting_successes(world, ranks)
    renewal = Renewal(
        list_number=world.address_list.number,
        reason=loss.reason.name,
        message=loss.message + _taken_along(world.succeeded - lasting),
        ranks=compact_ranks(ranks),
        lost=compact_ranks(loss.lost),
        time=format_time(ctx.now),
    )
    update = {
        "last_renewal": renewal,
        # A second loss before the next list belongs to the same re-rendezvous, so the number of
        # re-rendezvous stays the same.
        "renewals": ctx.next_status.renewals + (1 if world.list_is_active else 0),
        "succeeded_ranks": compact_ranks(lasting),
    }
    status = ctx.next_status.model_copy(update=update)
    dead = replace(world, state=ListState.STALE, renewing=ranks, succeeded=lasting)
    return replace(ctx, world=dead, next_status=status)


def _taken_along(ranks: frozenset[int]) -> str:
    """Describe the ranks that restart although they had succeeded; "" if there are none."""
    if not ranks:
        return ""
    verb = "restarts" if len(ranks) == 1 else "restart"
    return f"; {format_ranks(ranks)}, which had succeeded, {verb} as well"
