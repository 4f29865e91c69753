"""When a program that has failed may start again in its container.

The kubelet starts a container again at once, and does not know that a failure was the last one that
the job allows. The launcher in it therefore waits before it starts the program, until the operator
confirms that the failure is counted (docs/decisions/046). A job that has failed confirms nothing,
so nothing starts after the last failure.
"""

from dijob.core.actions import ConfirmEnds
from dijob.core.membership.context import Pass
from dijob.core.observed.views import Pod


def confirmations(ctx: Pass) -> tuple[ConfirmEnds, ...]:
    """Confirm what the stored status has counted; nothing while a count is not stored."""
    if ctx.has_unstored_counts:
        return ()
    return tuple(ConfirmEnds(pod.name, pod.uid, pod.containers.ends) for pod in waiting(ctx))


def waiting(ctx: Pass) -> list[Pod]:
    """Return the pods whose launcher waits, and that are not about to be re-created."""
    going = {pod.uid for pod in ctx.world.to_delete}
    renewed = {charge.uid: charge.renewed for charge in ctx.status.restarts_seen}
    return [
        pod
        for _, pod in sorted(ctx.world.pods.items())
        if _waits(pod, renewed.get(pod.uid, 0)) and pod.uid not in going
    ]


def _waits(pod: Pod, renewed: int) -> bool:
    """Whether the launcher waits in the pod. After a re-rendezvous that was asked for, it does not:
    `renewed` is the number of the last list for which there was one.
    """
    if not pod.made.confirmable or pod.deleting or pod.containers.succeeded:
        return False
    asked = 0 < pod.containers.ended_for <= renewed
    return pod.containers.sandbox and not asked and pod.containers.ends > pod.copy.ends_counted
