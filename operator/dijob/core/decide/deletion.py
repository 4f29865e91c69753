"""Deletes pods: gracefully, or by force if their node is lost."""

from collections.abc import Iterable

from dijob.core.actions import DeletePod, ForceDeletePod, ReleasePod
from dijob.core.observed.views import Pod

# Grace period (seconds) of a pod whose program has not started. The kernel drops a signal to the
# first process of a container while it has no handler, and the kubelet sends SIGTERM only once. So
# a container that is deleted in the milliseconds of its start would take the full grace period. It
# is not 0, because the kubelet may have started the program a moment ago.
IDLE_GRACE_SECONDS = 2


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


def force_delete_pods(pods: Iterable[Pod]) -> tuple[ForceDeletePod, ...]:
    """Force-delete pods whose node will never report their end (lost_nodes.py)."""
    return tuple(ForceDeletePod(pod.name, pod.uid) for pod in pods)
