"""Adds warnings about pods whose scheduler or node reports nothing.

Neither a status nor an event explains why such a pod does not start. So the operator infers the
reason from the silence itself.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from dijob.api.status import format_time, parse_time
from dijob.core.observed.views import Observed, Pod, pod_age

# A node or a scheduler that reports nothing about a pod for this long is named in a warning.
UNACKNOWLEDGED_SECONDS = 10.0


def with_silence(observed: Observed, now: datetime) -> Observed:
    """Return the observed state, with a warning for each pod whose node is unreachable. A pod also
    gets a warning if no node or scheduler has reported on it for UNACKNOWLEDGED_SECONDS.
    """
    lost, unacknowledged = (
        dict(_on_silent_nodes(observed)),
        dict(_unacknowledged_pods(observed, now)),
    )
    if not (lost or unacknowledged):
        return observed
    # The loss of the node is newer than any event about its pods, so it takes precedence.
    return replace(observed, warnings={**unacknowledged, **observed.warnings, **lost})


def _on_silent_nodes(observed: Observed) -> Iterator[tuple[str, str]]:
    """Yield a warning for each pod on an unreachable node. A pod that was not Ready when its node
    was lost shows no sign of the loss. So the operator also checks the other pods on that node.
    """
    there = [pod for pod in observed.all_pods if not (pod.deleting or pod.finished)]
    nodes = {pod.placement.node: silent for pod in there if (silent := pod.placement.silent_since)}
    for pod in there:
        if since := nodes.get(pod.placement.node):
            yield pod.uid, _describe_silence(pod, since)


def _describe_silence(pod: Pod, since: str) -> str:
    silent = f"node {pod.placement.node} has been unreachable since {since}"
    seconds, begun = pod.placement.eviction_seconds, parse_time(since)
    if seconds is None or begun is None:
        return (
            f"{silent}, and the job's pods on it tolerate that indefinitely: if the node does not"
            f" come back, delete each of them (kubectl delete pod --force {pod.name})"
        )
    evicted = format_time(begun + timedelta(seconds=seconds))
    return f"{silent}; Kubernetes will evict its pods at {evicted}"


def _unacknowledged_pods(observed: Observed, now: datetime) -> Iterator[tuple[str, str]]:
    for pod in observed.all_pods:
        silent = pod.placement.unacknowledged and not (pod.ip or pod.deleting)
        if silent and pod_age(pod, now) > UNACKNOWLEDGED_SECONDS:
            yield pod.uid, _not_taken(pod, _ended_in_group(observed, pod))


def _ended_in_group(observed: Observed, pod: Pod) -> int:
    """Return how many of the job's pods in this pod's PodGroup have ended."""
    group = pod.made.group
    return sum(
        bool(group) and one.finished and one.made.group == group for one in observed.all_pods
    )


def _not_taken(pod: Pod, ended: int) -> str:
    """Return which node or scheduler has not reported on the pod. `ended` is the number of pods in
    its PodGroup that have ended.
    """
    kind, _, name = pod.placement.unacknowledged.partition(" ")
    within = f"within {UNACKNOWLEDGED_SECONDS:.0f} s"
    if kind == "node":
        why = "its kubelet does not respond"
        # A scheduler chooses only nodes that exist.
        why = why if pod.placement.placed else f"the node does not exist, or {why}"
        return f"node {name} has not accepted the pod {within}: {why}"
    if needed := pod.placement.prerequisites:
        return (
            f"scheduler {name} has not considered the pod {within}: the pod is waiting for"
            f" {' and for '.join(needed)}{_uncounted(ended)}, or that scheduler is not running"
        )
    return (
        f"scheduler {name} has not considered the pod {within}: that scheduler is not installed, or"
        " not running"
    )


def _uncounted(ended: int) -> str:
    """Return a hint that pods which have ended do not count toward minCount."""
    if not ended:
        return ""
    pods = "1 ended pod of the job does" if ended == 1 else f"{ended} ended pods of the job do"
    return f" ({pods} not count any more, so lower minCount)"
