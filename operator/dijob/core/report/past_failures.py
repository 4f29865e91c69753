"""Describes the failures that a running job has recovered from: their number, and the last one.

Without this, a rank that crashes repeatedly looks healthy: between two crashes, all ranks are
running.
"""

from dijob.api.status import Charge
from dijob.core.decide.context import Context
from dijob.core.members import format_count
from dijob.core.membership.failures import was_excused
from dijob.core.observed.views import Pod
from dijob.reasons import AddressesReady

# If a loss has one of these reasons, a failure of a program caused it.
FAILURES = (
    AddressesReady.PodFailed.name,
    AddressesReady.FailurePolicy.name,
    AddressesReady.ProgressStalled.name,
)


def past_failures(ctx: Context) -> str:
    """Return the failures counted against backoffLimit, worded as the end of a sentence; "" if
    there are none. The last failure is described if it is still known, from its pod or from the
    last loss.
    """
    charged = ctx.next_status.restarts
    if not charged:
        return ""
    # Times in Kubernetes' format can be sorted as text.
    time, description = max([*_of_pods(ctx), *_of_renewal(ctx)], default=("", ""))
    last = f", the last at {time}: {description}" if description else ""
    return f"; {format_count(charged, 'failure')} so far{last}"


def _of_pods(ctx: Context) -> list[tuple[str, str]]:
    """Return the time and the description of each pod's last counted failure."""
    charged = {charge.uid: charge for charge in ctx.next_status.restarts_seen if charge.failures}
    pods = (pod for pod in ctx.world.pods.values() if pod.uid in charged)
    return [failure for pod in pods if (failure := _last_failure(pod, charged[pod.uid]))]


def _last_failure(pod: Pod, charge: Charge) -> tuple[str, str] | None:
    end = pod.containers.last_end
    failed = end and (end.exit_code != 0 or end.signal) and not was_excused(pod, charge)
    return (end.at, f"rank {pod.rank}: {end.program} {end.words}") if end and failed else None


def _of_renewal(ctx: Context) -> list[tuple[str, str]]:
    """Return the time and message of the last loss, if a failure caused it."""
    last = ctx.next_status.last_renewal
    return [(last.time, last.message)] if last and last.reason in FAILURES else []
