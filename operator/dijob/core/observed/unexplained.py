"""Pods whose events are read, since nothing else tells why nothing starts in them."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from dijob.core import pace
from dijob.core.observed.views import Pod, age

# The events of a pod are read if its status gives no reason for so long after its creation.
UNEXPLAINED_SECONDS = 2.5
# Between two readings of a pod's events: the kubelet repeats one after some minutes, if at all.
READ_AGAIN_SECONDS = 10.0


def unexplained(
    pods: Iterable[Pod], now: datetime, patience: float = UNEXPLAINED_SECONDS
) -> tuple[Pod, ...]:
    """The pods of which only an event can say why nothing starts in them: they have a node, or no
    scheduler has reported on them (a ResourceClaim cannot be made). They are older than `patience`
    (seconds), and their status gives no reason.
    """
    return tuple(
        p
        for p in pods
        if (p.scheduled or p.placement.unacknowledged)
        and not p.has_arrived
        and not p.complaint
        and age(p, now) > patience
    )


def events_due(
    pods: Iterable[Pod], due: Mapping[str, datetime], now: datetime, latency: float = 0.0
) -> tuple[Pod, ...]:
    """Those of the unexplained pods whose events are to be read, the longest overdue first; `due`
    is when those of each are read again, by uid.

    With `latency`, the seconds that a write takes now, patience grows: the apiserver reads all
    events of the namespace to find those of one pod, and where it is slow, so is every start.
    """
    patience = pace.interval(UNEXPLAINED_SECONDS, latency)
    silent = unexplained(pods, now, patience)
    overdue = (pod for pod in silent if due.get(pod.uid, now) <= now)
    return tuple(sorted(overdue, key=lambda pod: (pod.uid in due, due.get(pod.uid, now))))
