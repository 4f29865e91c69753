"""Confirms to launchers that a failure has been counted, so that they may restart the program.

The kubelet restarts a failed container at once. The kubelet does not know whether the job allows
another failure. So before the launcher restarts the program, it waits until the operator confirms
that the failure has been counted (docs/decisions/046). After a job has failed, the operator
confirms nothing. So no program runs again after the last failure, and the newest log shows that
failure.
"""

from dijob.core.actions import ConfirmEnds
from dijob.core.decide.context import Context
from dijob.core.observed.views import Pod


def confirm_failures(ctx: Context) -> tuple[ConfirmEnds, ...]:
    """Return the confirmations for the failures that are counted in the stored status."""
    if ctx.has_unstored_counts:
        return ()
    return tuple(
        ConfirmEnds(pod.name, pod.uid, pod.containers.ends) for pod in pods_to_confirm(ctx)
    )


def pods_to_confirm(ctx: Context) -> list[Pod]:
    """Return the pods whose launcher is waiting and that are not about to be re-created."""
    replaced = {pod.uid for pod in ctx.world.to_delete}
    renewed = {charge.uid: charge.renewed for charge in ctx.next_status.restarts_seen}
    return [
        pod
        for _, pod in sorted(ctx.world.pods.items())
        if _launcher_waits(pod, renewed.get(pod.uid, 0)) and pod.uid not in replaced
    ]


def _launcher_waits(pod: Pod, renewed: int) -> bool:
    """Whether the pod's launcher is waiting for a confirmation. The launcher does not wait after a
    restart that the operator has requested. `renewed` is the newest revision for which such a
    restart was counted.
    """
    if not pod.made.confirmable or pod.deleting or pod.containers.succeeded:
        return False
    asked = 0 < pod.containers.ended_for <= renewed
    return pod.containers.sandbox and not asked and pod.containers.ends > pod.copy.ends_counted
