"""Pods that hang Terminating on a node that is gone: the one case in which a pod is deleted by
force.
"""

from collections.abc import Iterable
from datetime import datetime

from dijob.core.observed.views import Pod, since

# After the end of its grace period, for a kubelet that is only late.
SLACK_SECONDS = 5.0


def abandoned(pods: Iterable[Pod], now: datetime) -> tuple[Pod, ...]:
    """The pods that nobody will end any more.

    Only those that the cluster itself has deleted for the loss of their node: a kubelet that is
    merely slow ends its pods itself. On a node that is cut off but alive the processes may run on;
    nobody dials them any more.
    """
    return tuple(pod for pod in pods if (left := _left(pod, now)) is not None and left <= 0)


def seconds_until_next(pods: Iterable[Pod], now: datetime) -> float | None:
    """Seconds until the next one is abandoned, None where none will be."""
    return min(
        (left for pod in pods if (left := _left(pod, now)) is not None and left > 0), default=None
    )


def _left(pod: Pod, now: datetime) -> float | None:
    if not (pod.deleting and pod.placement.node_lost):
        return None
    over = since(pod.placement.termination.until, now)
    return None if over is None else SLACK_SECONDS - over
