"""Reports a job whose pods are going away because it is suspended or being deleted.

The report says what the pods are doing, and what the deletion is waiting for.
"""

from dijob.api.model import Metadata
from dijob.core.decide.context import Context
from dijob.core.facts import Fact
from dijob.core.members import format_count
from dijob.core.observed import diagnose
from dijob.core.observed.termination import held_by
from dijob.core.report import conditions
from dijob.core.report.optional import optional_conditions
from dijob.core.report.queueing import hold_message
from dijob.core.report.stalls import stall_facts
from dijob.reasons import AddressesReady, PeersReady, PodsCreated, Running, Suspended, Terminating

# Finalizers that the API server sets for the garbage collector; their names would explain nothing.
OF_KUBERNETES = frozenset({"foregroundDeletion", "orphan"})


def suspension_facts(ctx: Context) -> list[Fact]:
    """Return the conditions of a job that is suspended, or that is waiting for its old pods to
    terminate before it resumes.
    """
    left = ctx.observed.all_pods
    ending = f"; {diagnose.still_ending(left, ctx.now)}" if left else ""
    held = hold_message(ctx)
    message = f"{held or 'the job resumes when its old pods are gone'}{ending}"
    if ctx.job.spec.suspend:
        command = f"kubectl dijob resume {ctx.job.metadata.name}"
        message = (
            f"the job is suspended: set spec.suspend to false to resume it (`{command}`){ending}"
        )
    gone = Suspended.Queued if held else Suspended.Suspended
    state = Suspended.Suspending if left else gone
    conditions = (
        PodsCreated.Suspended,
        AddressesReady.Suspended,
        Running.Suspended,
        PeersReady.Suspended,
        state,
    )
    facts = (Fact(reason, message) for reason in conditions)
    return [*facts, *optional_conditions(ctx), *stall_facts(ctx)]


def deletion_facts(ctx: Context) -> list[Fact]:
    """Return the conditions of a job that is being deleted."""
    if ctx.job.status.ended:
        return [*optional_conditions(ctx), deletion_wait_fact(ctx.job.metadata)]
    if all((pod := ctx.world.pods.get(rank)) and not pod.deleting for rank in ctx.world.wanted):
        return [*conditions.progress_facts(ctx), deletion_wait_fact(ctx.job.metadata)]
    message = _pods_in_words(ctx)
    lacking = (
        PodsCreated.Terminating,
        AddressesReady.Terminating,
        Running.Terminating,
        PeersReady.Terminating,
    )
    pods = [Fact(reason, message) for reason in lacking]
    optional = (*optional_conditions(ctx), *stall_facts(ctx))
    return [*pods, *optional, deletion_wait_fact(ctx.job.metadata)]


def deletion_wait_fact(job: Metadata) -> Fact:
    """Return what the deletion of the job is waiting for."""
    foreign = [each for each in job.finalizers if each not in OF_KUBERNETES]
    if foreign:
        return Fact(Terminating.HeldByFinalizer, f"the job is being deleted: {held_by(foreign)}")
    return Fact(
        Terminating.WaitsForPods,
        "the job is being deleted and is waiting for its pods to terminate",
    )


def _pods_in_words(ctx: Context) -> str:
    pods = ctx.observed.all_pods
    stay = sum(not pod.deleting and not pod.finished for pod in pods)
    ending = [pod for pod in pods if pod.deleting]
    parts = [
        *([f"{format_count(stay, 'pod')} still running"] if stay else []),
        *([diagnose.still_ending(ending, ctx.now)] if ending else []),
    ]
    return "; ".join(parts) or "no pods are left"
