"""Reports a suspended job, and one that waits for its old pods to end before it resumes."""

from dijob.core.decide.context import Context
from dijob.core.facts import Fact
from dijob.core.observed import diagnose
from dijob.core.report.optional import optional_conditions
from dijob.reasons import AddressesReady, PeersReady, PodsCreated, Running, Suspended

MESSAGE = "the job is suspended: set spec.suspend to false to resume it"


def suspension_facts(ctx: Context) -> list[Fact]:
    """Return the conditions of a job that is suspended, or that waits for its old pods to end
    before it resumes.
    """
    left = ctx.observed.all_pods
    ending = f"; {diagnose.still_ending(left, ctx.now)}" if left else ""
    message = (
        f"{MESSAGE}{ending}"
        if ctx.job.spec.suspend
        else f"the job resumes when its old pods are gone{ending}"
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
