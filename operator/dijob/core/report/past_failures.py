"""What a running job has recovered from: how many failures, and the last one in words.

Between two failures of a rank that crashes again and again, all ranks run.
"""

from dijob.api.status import Charge
from dijob.core.members import count
from dijob.core.membership.context import Pass
from dijob.core.membership.failures import was_excused
from dijob.core.observed.views import Pod
from dijob.reasons import AddressesReady

# The losses that are failures of a program.
FAILURES = (AddressesReady.PodFailed.name, AddressesReady.FailurePolicy.name)


def past_failures(ctx: Pass) -> str:
    """The failures that are charged to backoffLimit, as the rest of a sentence; "" where there are
    none. The last one is told where it is still known: by its pod, or as the cause of a renewal.
    """
    charged = ctx.status.restarts
    if not charged:
        return ""
    time, words = max([*_of_pods(ctx), *_of_renewal(ctx)], default=("", ""))
    last = f", the last at {time}: {words}" if words else ""
    return f"; {count(charged, 'failure')} so far{last}"


def _of_pods(ctx: Pass) -> list[tuple[str, str]]:
    """When each pod failed last, and how."""
    charged = {charge.uid: charge for charge in ctx.status.restarts_seen if charge.failures}
    pods = (pod for pod in ctx.world.pods.values() if pod.uid in charged)
    return [told for pod in pods if (told := _last_failure(pod, charged[pod.uid]))]


def _last_failure(pod: Pod, charge: Charge) -> tuple[str, str] | None:
    end = pod.containers.last_end
    failed = end and (end.exit_code or end.signal) and not was_excused(pod, charge)
    return (end.at, f"rank {pod.rank}: {end.program} {end.words}") if end and failed else None


def _of_renewal(ctx: Pass) -> list[tuple[str, str]]:
    """The failure for which ranks were last renewed."""
    last = ctx.status.last_renewal
    return [(last.time, last.message)] if last and last.reason in FAILURES else []
