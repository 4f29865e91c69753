"""Finds pods that stay Terminating on a lost node: the only case in which the operator deletes a
pod by force.
"""

from collections.abc import Iterable
from datetime import datetime

from dijob.core.observed.views import Pod, seconds_since

# Added to the grace period, for a kubelet that is only late.
SLACK_SECONDS = 5.0


def abandoned_pods(pods: Iterable[Pod], now: datetime) -> tuple[Pod, ...]:
    """Return the pods whose kubelet will not end them any more.

    Only pods that the cluster itself has deleted because it lost their node are returned: a kubelet
    that is merely slow ends its pods itself. On a node that is disconnected but alive the processes
    may keep running, but no rank connects to them any more.
    """
    return tuple(pod for pod in pods if (left := _seconds_left(pod, now)) is not None and left <= 0)


def seconds_until_next(pods: Iterable[Pod], now: datetime) -> float | None:
    """Return the seconds until the next pod is abandoned; None if none will be."""
    return min(
        (left for pod in pods if (left := _seconds_left(pod, now)) is not None and left > 0),
        default=None,
    )


def _seconds_left(pod: Pod, now: datetime) -> float | None:
    if not (pod.deleting and pod.placement.node_lost):
        return None
    over = seconds_since(pod.placement.termination.until, now)
    return None if over is None else SLACK_SECONDS - over
