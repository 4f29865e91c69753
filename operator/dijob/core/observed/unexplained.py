"""Selects the pods whose events are read, because nothing else explains why these pods do not
start.

Events are not watched, because a cluster has far more events than pods. They are read only for pods
whose state nothing else explains, and less often if the API server is slow.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from dijob.core import pace
from dijob.core.observed.pod_events import Probe, probe_of
from dijob.core.observed.views import Pod, pod_age, seconds_since

# The events of a pod are read if its status still gives no reason this long after its creation.
# Most pods have started by then.
UNEXPLAINED_SECONDS = 2.5
# The interval between two reads of a pod's events. A kubelet repeats an event only after some
# minutes, if at all.
READ_AGAIN_SECONDS = 10.0
# If a probe has not succeeded this long after its container started, this is not just a slow start.
PROBE_SECONDS = 10.0


def unexplained_pods(
    pods: Iterable[Pod], now: datetime, patience: float = UNEXPLAINED_SECONDS
) -> tuple[Pod, ...]:
    """Return the pods that only an event can explain. They are older than `patience` (seconds), and
    their status gives no reason. Either they are on a node, or no scheduler has reported on them
    (for example, because a ResourceClaim cannot be created).
    """
    return tuple(
        p
        for p in pods
        if (p.scheduled or (p.placement.unacknowledged and not _waits_for_group(p)))
        and not p.has_arrived
        and not p.complaint
        and pod_age(p, now) > patience
    )


def _waits_for_group(pod: Pod) -> bool:
    """Whether the pod waits for nothing but its PodGroup. The scheduler writes no event about a pod
    whose group is missing or has too few pods.
    """
    return bool(pod.made.group) and len(pod.placement.prerequisites) == 1


def events_due(
    pods: Iterable[Pod], due: Mapping[str, datetime], now: datetime, latency: float = 0.0
) -> tuple[Pod, ...]:
    """Return the unexplained pods whose events must be read now, the longest overdue first. `due`
    maps the uid of a pod to the time when its events are read again.

    `latency` is how long a write currently takes, in seconds. If writes are slow, events are read
    later. To find the events of one pod, the API server reads all events of the namespace. Also,
    each pod takes longer to start while the API server is slow.
    """
    patience = pace.write_interval(UNEXPLAINED_SECONDS, latency)
    silent = unexplained_pods(pods, now, patience)
    overdue = (pod for pod in silent if due.get(pod.uid, now) <= now)
    return tuple(sorted(overdue, key=lambda pod: (pod.uid in due, due.get(pod.uid, now))))


def probes_due(
    pods: Iterable[Pod], known: Mapping[Probe, str], due: Mapping[str, datetime], now: datetime
) -> tuple[tuple[Probe, Pod], ...]:
    """Return the probes that keep pods unready and whose output is not known yet. Each comes with
    one of the pods that it keeps unready. Ranks have the same containers, so one pod per probe is
    enough.
    """
    found = dict[Probe, Pod]()
    for pod in pods:
        probe = probe_of(pod)
        if probe is None or probe in known or pod.unready is None or due.get(pod.uid, now) > now:
            continue
        if (seconds_since(pod.unready.since, now) or 0.0) > PROBE_SECONDS:
            found.setdefault(probe, pod)
    return tuple(found.items())
