"""Reads from a pod's events the facts that its status lacks: why its containers do not start, and
why the kubelet has killed a container.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from dijob.api.printed import one_line
from dijob.core.observed.complaints import event_warning, is_retried
from dijob.core.observed.endings import ContainerEnding
from dijob.core.observed.views import Pod

Body = Mapping[str, Any]
# A pod's uid, the name of a container, and the time when that container ended.
End = tuple[str, str, str]
# The name of a container, and the kind of one of its probes.
Probe = tuple[str, str]

# Reasons of events that show that an earlier warning no longer applies.
PROGRESS = ("Pulling", "Pulled", "Created", "Started")
# The message of a kubelet that kills a container because of a probe (1.30 to 1.37,
# pkg/kubelet/kuberuntime: computePodActions), and the message about a failed probe
# (pkg/kubelet/prober).
KILLED = re.compile(r"Container (\S+) failed (liveness|startup) probe")
PROBED = re.compile(r"(Liveness|Readiness|Startup) probe (?:failed|errored[^:]*): *(.*)", re.DOTALL)
# The event about a container that the kubelet kills because its postStart hook has failed (1.34,
# pkg/kubelet/kuberuntime: startContainer).
HOOK_FAILED = "FailedPostStartHook"
# The reasons of some events about a whole pod. Such an event explains why the pod's containers
# ended. If the kubelet has recorded how a container ended, that record is more informative.
KILLS = ("Evicted", "OOMKilling", "Preempting")


def newest_warning(
    events: Iterable[Body], main: str, volumes: tuple[tuple[str, str], ...] = ()
) -> tuple[str, str]:
    """Return the text of the newest warning about a pod, and when the warning first occurred
    ("": unknown). `main` is the name of the pod's main container, and `volumes` are its image
    volumes. The text is "" if there is no warning, or if the kubelet has made progress since.
    """
    events = sorted(events, key=_last_occurrence, reverse=True)
    for event in events:
        if event.get("type") == "Warning" and (text := event_warning(event, main, volumes)):
            return text, str(event.get("firstTimestamp") or event.get("eventTime") or "")
        # A retry of a failed pull is not progress.
        if event.get("reason") in PROGRESS and not _pull_failed(events, main):
            break
    return "", ""


def _pull_failed(events: Iterable[Body], main: str) -> bool:
    return any(is_retried(event_warning(event, main)) for event in events)


def unexplained_ends(pods: Iterable[Pod]) -> Iterator[tuple[End, ContainerEnding, Pod]]:
    """Yield the last terminations whose cause only an event can show. If the kubelet has killed the
    container, the container's status shows an ordinary termination by SIGTERM. If the kubelet has
    no record of the end, the container's status shows nothing.
    """
    for pod in pods:
        end = pod.containers.last_end
        if end is None or end.exit_code == 0:
            continue
        if not end.recorded or (end.container or pod.made.main) in pod.made.probed:
            yield (pod.uid, end.container or pod.made.main, end.at), end, pod


def kill_cause(
    events: Iterable[Body], container: str, end: ContainerEnding, after: str = ""
) -> str:
    """Return why the kubelet killed a container; "" if no event shows that it did. Events up to
    `after` belong to an earlier termination of the container.
    """
    begin = max(end.began, after)
    during = sorted(
        (e for e in events if begin <= _last_occurrence(e) <= (end.at or "~")),
        key=_last_occurrence,
        reverse=True,
    )
    killed = (KILLED.match(str(event.get("message"))) for event in during)
    kind = next((found[2] for found in killed if found and found[1] == container), "")
    about = [event for event in during if _is_about(event, container)]
    if kind:
        probes = (PROBED.match(str(event.get("message"))) for event in about)
        found = (one_line(one[2]) for one in probes if one and one[1].lower() == kind)
        return f"its {kind} probe failed" + (f": {why}" if (why := next(found, "")) else "")
    if any(event.get("reason") == HOOK_FAILED for event in about):
        return "its postStart hook failed"
    if end.recorded:
        return ""
    whole = (event for event in during if event.get("reason") in KILLS and event.get("message"))
    return next((f"{event['reason']}: {one_line(event['message'])}" for event in whole), "")


def end_before(key: End, known: Iterable[End]) -> str:
    """Return the latest time in `known` that is earlier than the time in `key`, for the same
    container of the same pod; "" if there is none.
    """
    return max((at for *whose, at in known if whose == list(key[:2]) and at < key[2]), default="")


def with_causes(pod: Pod, causes: Mapping[End, str]) -> Pod:
    """Return the pod, with the cause added to its last termination and to its complaint."""
    for key, end, _ in unexplained_ends([pod]):
        if cause := causes.get(key, ""):
            known = replace(end, cause=cause)
            complaint = pod.complaint.replace(end.words, known.words)
            containers = replace(pod.containers, last_end=known)
            return replace(pod, complaint=complaint, containers=containers)
    return pod


def probe_of(pod: Pod) -> Probe | None:
    """Return the probe that keeps a pod from being Ready; None if no probe does."""
    unready = pod.unready
    return (unready.container, unready.probe) if unready and unready.probe else None


def failing_probe(events: Iterable[Body], pod: Pod) -> str:
    """Return the last result of the probe that keeps a pod from being Ready; "" if no event shows
    it. The pod's address is replaced with a placeholder, so that all ranks get the same message.
    """
    if (probe := probe_of(pod)) is None:
        return ""
    about = (
        one
        for one in sorted(events, key=_last_occurrence, reverse=True)
        if _is_about(one, probe[0])
    )
    results = (PROBED.match(str(event.get("message"))) for event in about)
    found = next((one for one in results if one and one[1].lower() == probe[1]), None)
    text = one_line(found[2]) if found else ""
    return text.replace(pod.ip, "<pod IP>") if pod.ip else text


def with_probe(pod: Pod, results: Mapping[Probe, str]) -> Pod:
    """Return the pod, with the result of its failing probe added to the text of `unready`."""
    probe = probe_of(pod)
    if pod.unready is None or probe is None or not (result := results.get(probe)):
        return pod
    text = f"{pod.unready.text}: {result}"
    return replace(pod, unready=replace(pod.unready, text=text))


def _is_about(event: Body, container: str) -> bool:
    path = str((event.get("involvedObject") or {}).get("fieldPath") or "")
    return path.endswith(f"{{{container}}}")


def _last_occurrence(event: Body) -> str:
    """Return the time at which the event last occurred. It is in whole seconds like the times of
    containers, so that both can be compared as text.
    """
    series = event.get("series") or {}
    at = event.get("lastTimestamp") or series.get("lastObservedTime") or event.get("eventTime")
    return re.sub(r"\.\d+Z$", "Z", str(at or ""))
