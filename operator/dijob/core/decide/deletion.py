"""How pods go: asked to end, or removed where nobody will end them."""

from collections.abc import Iterable

from dijob.core.actions import DeletePod, ForceDeletePod, ReleasePod
from dijob.core.observed.views import Pod

# Grace period (seconds) of a pod whose program has not begun. The kernel drops
# a signal to the first process of a container that has no handler yet, and the kubelet sends TERM
# only once: a container that is deleted in the milliseconds in which it starts would take the whole
# grace period of the pod. Two seconds: the kubelet may have started the program a moment ago.
IDLE_GRACE_SECONDS = 2


def deletions(pods: Iterable[Pod]) -> tuple[DeletePod, ...]:
    """Delete the pods that are not being deleted yet."""
    return tuple(DeletePod(pod.name, pod.uid, _grace(pod)) for pod in pods if not pod.deleting)


def release(pod: Pod) -> ReleasePod:
    """Delete a pod so that a lower rank finds a node."""
    return ReleasePod(pod.name, pod.uid, _grace(pod))


def _grace(pod: Pod) -> int | None:
    shortened = pod.is_idle and pod.made.grace > IDLE_GRACE_SECONDS
    return IDLE_GRACE_SECONDS if shortened else None


def removals(pods: Iterable[Pod]) -> tuple[ForceDeletePod, ...]:
    """Of those that nobody will end (lost_nodes.py)."""
    return tuple(ForceDeletePod(pod.name, pod.uid) for pod in pods)
