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

MESSAGE = "the job is suspended: set spec.suspend to false to go on"


def applies(this: Pass) -> bool:
    """Whether the job is suspended, or its pods from before still have to go."""
    return this.job.spec.suspend or bool(this.job.status.suspend_time)


def status(this: Pass) -> Status:
    """The status of a job that is suspended, or resumed in this pass."""
    since = parse_time(this.job.status.suspend_time)
    if since is None:
        died = Renewal(
            list_number=this.world.address_list.number,
            reason=SUSPENDED,
            message="the job was suspended",
            time=timestamp(this.now),
        )
        update = {
            "suspend_time": timestamp(this.now),
            "last_renewal": died,
            "given_back": None,
            "succeeded_ranks": compact(together.lasting_successes(this.world)),
        }
    elif resumed(this):
        seconds = this.status.suspended_seconds + max(0, int((this.now - since).total_seconds()))
        update = {
            "suspend_time": None,
            "resume_time": timestamp(this.now),
            "suspended_seconds": seconds,
        }
    else:
        update = {}
    return this.status.model_copy(update=update)


def resumed(this: Pass) -> bool:
    """Whether the job can begin again: it is no longer suspended, and nothing is left from
    before.
    """
    return not (this.job.spec.suspend or this.observed.all_pods)


def actions(this: Pass) -> tuple[Action, ...]:
    """Everything goes once that is written down."""
    if not this.job.status.suspend_time or this.has_unstored_counts:
        return ()
    pods = this.observed.all_pods
    return (*deletions(pods), *removals(lost_nodes.abandoned(pods, this.now)))


def facts(this: Pass) -> list[Fact]:
    """The conditions of a job that is suspended, or that waits for its old pods to end before it
    goes on.
    """
    left = this.observed.all_pods
    going = f"; {diagnose.still_ending(left, this.now)}" if left else ""
    message = (
        f"{MESSAGE}{going}"
        if this.job.spec.suspend
        else f"the job goes on when its old pods are gone{going}"
    )
    state = Suspended.Suspending if left else Suspended.Suspended
    conditions = (
        PodsCreated.Suspended,
        AddressesReady.Suspended,
        Running.Suspended,
        PeersReady.Suspended,
        state,
    )
    return [*(Fact(reason, message) for reason in conditions), *optional_conditions(this)]
