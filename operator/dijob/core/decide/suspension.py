"""spec.suspend: the job's pods are ended gently, and come back with the same ranks and names when
it is false again.

Written down first (suspendTime), so that what only the pods know is stored before they go, and
their list is void: none is in force until the job begins anew (list_state.py). Once it is false
again, the old pods must be gone before the job begins anew: a name has one pod.
"""

from dijob.api.status import Renewal, Status, parse_time, timestamp
from dijob.core.actions import Action
from dijob.core.decide.deletion import deletions, removals
from dijob.core.members import compact
from dijob.core.membership import together
from dijob.core.membership.context import Pass
from dijob.core.membership.list_state import SUSPENDED
from dijob.core.observed import diagnose, lost_nodes
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import Fact
from dijob.reasons import AddressesReady, PeersReady, PodsCreated, Running, Suspended

MESSAGE = "the job is suspended: set spec.suspend to false to resume it"


def applies(ctx: Pass) -> bool:
    """Whether the job is suspended, or its pods from before still have to go."""
    return ctx.job.spec.suspend or bool(ctx.job.status.suspend_time)


def status(ctx: Pass) -> Status:
    """The status of a job that is suspended, or resumed in this pass."""
    since = parse_time(ctx.job.status.suspend_time)
    if since is None:
        died = Renewal(
            list_number=ctx.world.address_list.number,
            reason=SUSPENDED,
            message="the job was suspended",
            time=timestamp(ctx.now),
        )
        update = {
            "suspend_time": timestamp(ctx.now),
            "last_renewal": died,
            "given_back": None,
            "succeeded_ranks": compact(together.lasting_successes(ctx.world)),
        }
    elif resumed(ctx):
        seconds = ctx.status.suspended_seconds + max(0, int((ctx.now - since).total_seconds()))
        update = {
            "suspend_time": None,
            "resume_time": timestamp(ctx.now),
            "suspended_seconds": seconds,
        }
    else:
        update = {}
    return ctx.status.model_copy(update=update)


def resumed(ctx: Pass) -> bool:
    """Whether the job can begin again: it is no longer suspended, and nothing is left from
    before.
    """
    return not (ctx.job.spec.suspend or ctx.observed.all_pods)


def actions(ctx: Pass) -> tuple[Action, ...]:
    """Everything goes once that is written down."""
    if not ctx.job.status.suspend_time or ctx.has_unstored_counts:
        return ()
    pods = ctx.observed.all_pods
    return (*deletions(pods), *removals(lost_nodes.abandoned(pods, ctx.now)))


def facts(ctx: Pass) -> list[Fact]:
    """The conditions of a job that is suspended, or that waits for its old pods to end before it
    goes on.
    """
    left = ctx.observed.all_pods
    going = f"; {diagnose.still_ending(left, ctx.now)}" if left else ""
    message = (
        f"{MESSAGE}{going}"
        if ctx.job.spec.suspend
        else f"the job resumes when its old pods are gone{going}"
    )
    state = Suspended.Suspending if left else Suspended.Suspended
    conditions = (
        PodsCreated.Suspended,
        AddressesReady.Suspended,
        Running.Suspended,
        PeersReady.Suspended,
        state,
    )
    return [*(Fact(reason, message) for reason in conditions), *optional_conditions(ctx)]
