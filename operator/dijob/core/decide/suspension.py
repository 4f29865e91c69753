"""Suspends and resumes a job (spec.suspend): its pods are deleted gracefully, and created again
with the same ranks and names when spec.suspend is false.

The suspension is written to the status first (suspendTime). So successes and failures that are
visible only in the pods are stored before the pods are deleted. A suspended job has no active peer
list (list_state.py). A resumed job starts when all old pods are gone, because pod names are reused.
"""

from dijob.api.status import Renewal, Status, format_time, parse_time
from dijob.core.actions import Action
from dijob.core.decide import budgets, queueing, scheduling
from dijob.core.decide.context import Context
from dijob.core.decide.deletion import delete_pods, force_delete_lost_pods
from dijob.core.members import compact_ranks
from dijob.core.membership import gang_restart
from dijob.core.membership.list_state import SUSPENDED


def is_suspended(ctx: Context) -> bool:
    """Whether the job is suspended, or was suspended and its old pods are still terminating. A job
    that Kueue does not admit is suspended, too.
    """
    stored = bool(ctx.job.status.suspend_time)
    return ctx.job.spec.suspend or stored or queueing.is_held(ctx)


def next_status(ctx: Context) -> Status:
    """Return the status of a job that is suspended, or that is being resumed."""
    since = parse_time(ctx.job.status.suspend_time)
    if since is None:
        lasting = gang_restart.lasting_successes(ctx.world, frozenset(ctx.world.unfinished))
        stale = Renewal(
            list_number=ctx.world.address_list.number,
            reason=SUSPENDED,
            message="the job was suspended",
            time=format_time(ctx.now),
        )
        update = {
            "suspend_time": format_time(ctx.now),
            "last_renewal": stale,
            "given_back": None,
            "succeeded_ranks": compact_ranks(lasting),
        }
    elif can_resume(ctx):
        seconds = ctx.next_status.suspended_seconds + max(0, int((ctx.now - since).total_seconds()))
        update = {
            "suspend_time": None,
            "resume_time": format_time(ctx.now),
            "suspended_seconds": seconds,
        }
    else:
        update = {}
    return ctx.next_status.model_copy(update=update)


def can_resume(ctx: Context) -> bool:
    """Whether the job can start again.

    It can if it is no longer suspended, and has neither old pods nor an old object of its engine.
    If it has a queue, Kueue must also admit it.
    """
    if ctx.job.spec.suspend or ctx.observed.all_pods:
        return False
    return scheduling.is_released(ctx) and queueing.is_released(ctx)


def delete_all_pods(ctx: Context) -> tuple[Action, ...]:
    """Delete all pods and the budgets, once the suspension and all counts are stored. Then delete
    the engine's object for the job.
    """
    if not ctx.job.status.suspend_time or ctx.has_unstored_counts:
        return ()
    pods = ctx.observed.all_pods
    forced = force_delete_lost_pods(pods, ctx.now)
    shared = (*budgets.delete_budgets(ctx), *scheduling.delete_object(ctx))
    return (*delete_pods(pods), *forced, *shared)
