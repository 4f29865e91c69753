"""The reports of the launcher in a pod without a gate, and their effect on the view of that pod.

The kubelet reports that the main container has started, but the program does not start until its
launcher has the peer list. Until then the pod is in the same state as a pod at its gate.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from dijob.core.addresses import NO_LIST, ListCopy
from dijob.core.observed.views import Pod


class LauncherState(StrEnum):
    """What a launcher reports about its program (the launcher's channel/channel.go)."""

    WAITING = "waiting"  # the program has not started
    STARTED = "started"
    # The program listens on its port (or the port is not known), and any peers that were missing
    # when it started have connected since.
    READY = "ready"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class LauncherReport:
    """The newest report of a launcher.

    `state` is the state of its program, `ip` the address of its pod. `at` is when the operator
    received the first report that the program had started ("": none). `connected` is false if the
    launcher has lost its connection since.
    """

    state: LauncherState
    ip: str
    at: str = ""
    connected: bool = True


def with_report(pod: Pod, report: LauncherReport | None, copy: ListCopy, *, assumed: bool) -> Pod:
    """Return the view of a pod, with what its launcher has reported.

    `copy` is the peer list that the launcher has, or will get as soon as it connects. `assumed`: if
    there is no report, the program is assumed to have started when its container did.
    """
    if not pod.made.channel_key:
        return pod
    pod = _with_copy(pod, copy)
    # If the container was restarted, its launcher had a list before the restart.
    first = not (pod.containers.restarts or pod.containers.ended)
    if report is None:
        return _waiting(pod) if first and not assumed else pod
    pod = replace(pod, ip=pod.ip or report.ip)
    if report.state is LauncherState.WAITING:
        return _waiting(pod) if first else pod
    ended = bool(pod.containers.ended)
    containers = replace(
        pod.containers,
        unstarted=False,
        started=pod.containers.started or ("" if ended else report.at),
        gate_started=pod.containers.gate_started or pod.containers.started,
    )
    return replace(pod, ready=pod.ready or _is_ready(pod, report), containers=containers)


def _with_copy(pod: Pod, known: ListCopy) -> Pod:
    """Return the view of a pod, after adding the peer list of the pod's launcher to it.

    If the pod's annotations contain a list, the view keeps that list instead. The launcher reads
    the annotations, and anyone can write them, so the operator must verify them
    (membership/address_list.py).
    """
    if pod.copy.address_list != NO_LIST:
        return pod
    counted = max(known.ends_counted, pod.copy.ends_counted)
    return replace(pod, copy=replace(known, ends_counted=counted))


def _waiting(pod: Pod) -> Pod:
    """Return the view of a pod whose launcher waits for the first peer list."""
    containers = replace(
        pod.containers,
        started="",
        gated=not pod.containers.unstarted,
        gate_started=pod.containers.started,
    )
    return replace(pod, ready=False, containers=containers)


def _is_ready(pod: Pod, report: LauncherReport) -> bool:
    """Whether the pod only needs its kubelet's report to become Ready.

    This is the case if its program is ready and nothing else keeps the pod from being Ready.
    """
    ready = report.state is LauncherState.READY and report.connected
    # The pod may have ceased to be Ready after its container started. Then either the kubelet has
    # already reported that the container was ready, or the node is lost.
    first = pod.unready_since <= pod.containers.started or not pod.containers.started
    ended = pod.deleting or pod.phase in ("Failed", "Succeeded")
    alone = not (pod.made.has_others or pod.made.sidecars or pod.unready)
    return ready and first and alone and not ended and pod.containers.sandbox
