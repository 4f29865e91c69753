"""How pods go: asked to end, or removed where nobody will end them."""

from collections.abc import Iterable

from dijob.core.actions import DeletePod, ForceDeletePod
from dijob.core.observed.views import Pod


def deletions(pods: Iterable[Pod]) -> tuple[DeletePod, ...]:
    """Of those that are not on their way out yet."""
    return tuple(DeletePod(pod.name, pod.uid) for pod in pods if not pod.deleting)


def removals(pods: Iterable[Pod]) -> tuple[ForceDeletePod, ...]:
    """Of those that nobody will end (lost_nodes.py)."""
    return tuple(ForceDeletePod(pod.name, pod.uid) for pod in pods)
