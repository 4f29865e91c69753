"""Handles a job that is being deleted and still exists: a finalizer keeps it, or the deletion waits
for its pods (`kubectl delete --cascade=foreground`).

Nothing is created and lost pods are not replaced, as for a Deployment in this state. The status
stays accurate, failures count, and the message says what the deletion waits for. Most deletions are
immediate, so one that ends within REPORT_SECONDS costs no write.
"""

from dijob.api.model import Metadata
from dijob.api.status import parse_time
from dijob.core.actions import Action
from dijob.core.decide import completion
from dijob.core.decide.deletion import removals
from dijob.core.members import count
from dijob.core.membership.context import Pass
from dijob.core.observed import diagnose, lost_nodes
from dijob.core.observed.termination import held_by
from dijob.core.report import conditions
from dijob.core.report.optional import optional_conditions
from dijob.core.report.summary import Fact
from dijob.reasons import AddressesReady, PeersReady, PodsCreated, Running, Terminating

REPORT_SECONDS = 3.0
# Finalizers that the API server sets for the garbage collector; their names would explain nothing.
OF_KUBERNETES = frozenset({"foregroundDeletion", "orphan"})


def seconds_until_reported(ctx: Pass) -> float:
    """Return the seconds until the deletion has lasted long enough to be reported; 0 or less:
    now.
    """
    began = parse_time(ctx.job.metadata.deletion_timestamp)
    return REPORT_SECONDS - (ctx.now - began).total_seconds() if began else 0.0


def actions(ctx: Pass) -> tuple[Action, ...]:
    """Force-delete pods on lost nodes, because a foreground deletion would wait for them. The pods
    of a job that has ended are cleaned up as usual.
    """
    ended = ctx.job.status.ended and not ctx.job.paused
    clean = completion.clean_pods(ctx) if ended else ()
    return (*clean, *removals(lost_nodes.abandoned(ctx.observed.all_pods, ctx.now)))


def facts(ctx: Pass) -> list[Fact]:
    """Return the conditions of a job that is being deleted."""
    if ctx.job.status.ended:
        return [*optional_conditions(ctx), held(ctx.job.metadata)]
    if all((pod := ctx.world.pods.get(rank)) and not pod.deleting for rank in ctx.world.wanted):
        return [*conditions.progress(ctx), held(ctx.job.metadata)]
    message = _pods_in_words(ctx)
    lacking = (
        PodsCreated.Terminating,
        AddressesReady.Terminating,
        Running.Terminating,
        PeersReady.Terminating,
    )
    pods = [Fact(reason, message) for reason in lacking]
    return [*pods, *optional_conditions(ctx), held(ctx.job.metadata)]


def held(job: Metadata) -> Fact:
    """Return what the deletion of the job waits for."""
    foreign = [each for each in job.finalizers if each not in OF_KUBERNETES]
    if foreign:
        return Fact(Terminating.HeldByFinalizer, f"the job is being deleted: {held_by(foreign)}")
    return Fact(Terminating.WaitsForPods, "the job is being deleted and waits for its pods to end")


def _pods_in_words(ctx: Pass) -> str:
    pods = ctx.observed.all_pods
    stay = sum(not pod.deleting and not pod.finished for pod in pods)
    ending = [pod for pod in pods if pod.deleting]
    parts = [
        *([f"{count(stay, 'pod')} still running"] if stay else []),
        *([diagnose.still_ending(ending, ctx.now)] if ending else []),
    ]
    return "; ".join(parts) or "no pods are left"
