"""Deletes pods: gracefully, or by force if they stay Terminating on a lost node. A lost node is the
only case in which the operator deletes a pod by force.
"""

from collections.abc import Iterable
from datetime import datetime

from dijob.core.actions import DeletePod, ForceDeletePod, ReleasePod
from dijob.core.observed.views import Pod, seconds_since

# Grace period (seconds) of a pod whose program has not started. The kernel drops a signal to the
# first process of a container while this process has no handler, and the kubelet sends SIGTERM only
# once. So a container that is stopped within milliseconds of its start would take the full grace
# period.
# This grace period is not 0, because the kubelet may have started the program a moment ago.
IDLE_GRACE_SECONDS = 2
# Seconds added to the grace period of a pod on a lost node, in case its kubelet is only late.
LATE_KUBELET_SECONDS = 5.0


def delete_pods(pods: Iterable[Pod]) -> tuple[DeletePod, ...]:
    """Delete the pods that are not being deleted yet."""
    return tuple(
        DeletePod(pod.name, pod.uid, _short_grace_period(pod)) for pod in pods if not pod.deleting
    )


def release_pod(pod: Pod) -> ReleasePod:
    """Delete a pod to free its node for a lower rank."""
    return ReleasePod(pod.name, pod.uid, _short_grace_period(pod))


def _short_grace_period(pod: Pod) -> int | None:
    shortened = pod.is_idle and pod.made.grace > IDLE_GRACE_SECONDS
    return IDLE_GRACE_SECONDS if shortened else None


def force_delete_lost_pods(pods: Iterable[Pod], now: datetime) -> tuple[ForceDeletePod, ...]:
    """Force-delete the pods whose kubelet can no longer terminate them.

    A pod is force-deleted only if the cluster itself has deleted it because it lost the pod's node.
    A kubelet that is merely slow terminates its pods itself. On a node that is disconnected but
    alive, the processes may keep running, but ranks no longer connect to them.
    """
    return tuple(
        ForceDeletePod(pod.name, pod.uid)
        for pod in pods
        if (left := _seconds_until_lost(pod, now)) is not None and left <= 0
    )


def seconds_until_force(pods: Iterable[Pod], now: datetime) -> float | None:
    """Return the seconds until the next pod is force-deleted; None if none will be."""
    return min(
        (left for pod in pods if (left := _seconds_until_lost(pod, now)) is not None and left > 0),
        default=None,
    )


def _seconds_until_lost(pod: Pod, now: datetime) -> float | None:
    if not (pod.deleting and pod.placement.node_lost):
        return None
    over = seconds_since(pod.placement.termination.until, now)
    return None if over is None else LATE_KUBELET_SECONDS - over
