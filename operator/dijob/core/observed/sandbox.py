"""Detects from a pod's raw status that its sandbox has died.

If the sandbox of a pod dies, all containers of the pod terminate. A sandbox dies when its pause
process or its shim is killed, or when the node reboots. This is not a failure of the program. With
restartPolicy OnFailure the kubelet creates a new sandbox in the same pod. With Never, or if the
program exits 0 on SIGTERM, the pod ends, and only timestamps show what happened. If the sandbox has
died, the kubelet reports the sandbox as not ready (PodReadyToStartContainers) before it terminates
the containers. In all other cases, the containers terminate first. The timestamps are truncated to
whole seconds. So after SIGTERM, the launcher does not exit before the next full second begins (the
launcher's run/delay.go).

A container without a launcher has no such delay. Its end and the death of its sandbox can have the
same timestamp, although one of them happened first. The operator usually observes the two events
one after the other, and remembers their order (`with_remembered`). If the operator has observed
both at the same time, the exit code decides. The sandbox is assumed to be the cause if the
container was terminated by SIGTERM or SIGKILL. If the exit code is 0, the time when the kubelet
reported the exit decides. The sandbox is assumed to be the cause if the kubelet reported the exit
in the same second as the sandbox's death, or later (`_reported_at_once`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.scheduling import pod_condition
from dijob.core.observed.views import Pod

Body = Mapping[str, Any]

# 128 + SIGKILL, 128 + SIGTERM.
KILLED = (137, 143)


def has_died(status: Body, main: Body, launched: bool) -> bool:
    """Whether the pod's sandbox has died and no new one is known yet. `launched`: the launcher runs
    the program of the main container.
    """
    if status.get("phase") == "Running":
        return _died_under_it(status, main)
    if containers.exit_code(main) is not None:
        return ended_with_it(status, main, launched)
    init = status.get("initContainerStatuses") or ()
    return any(containers.exit_code(one) and ended_with_it(status, one) for one in init)


def ended_with_it(status: Body, container: Body, launched: bool = False) -> bool:
    """Whether a container has ended because its sandbox had died."""
    ready, ended = (
        pod_condition(status, "PodReadyToStartContainers"),
        (container.get("state") or {}).get("terminated") or {},
    )
    since, at = str(ready.get("lastTransitionTime") or ""), str(ended.get("finishedAt") or "")
    if ready.get("status") != "False" or not (since and at):
        return False
    if at != since or launched:
        return at > since
    code = ended.get("exitCode")
    return code in KILLED or (code == 0 and _reported_at_once(status, since))


def with_remembered(before: Pod, now: Pod) -> Pod:
    """Return the newer view of a pod. It is corrected if the older view shows that the sandbox died
    while the main container was still running. When that container ends, its exit code means
    neither success nor failure. This applies until the container starts again.
    """
    then, after = before.containers, now.containers
    died_first = then.outlived_sandbox or (not then.sandbox and then.started)
    if before.uid != now.uid or after.restarts != then.restarts or not died_first:
        return now
    # The view is corrected only if the main container will not be started again. A container that
    # the kubelet will start again is judged by its state in the new sandbox.
    if not (after.succeeded or after.broken):
        return now
    ended = replace(after, sandbox=False, succeeded=False, outlived_sandbox=True)
    return replace(now, containers=ended)


def _reported_at_once(status: Body, since: str) -> bool:
    """Whether the kubelet reported the end of the containers in the same second as the sandbox's
    death (`since`), or later.

    After a normal end, the kubelet reports the end first. It stops the sandbox a second later,
    because it first lists all containers again (seen on 1.37.2; pkg/kubelet: GetNewerThan before
    SyncTerminatingPod). If the pod was not Ready before, its status does not show when the kubelet
    reported the end, and the result is false.
    """
    ready = pod_condition(status, "ContainersReady")
    return ready.get("status") == "False" and str(ready.get("lastTransitionTime") or "") >= since


def _died_under_it(status: Body, main: Body) -> bool:
    """Whether the sandbox of a Running pod has died.

    The kubelet first reports that the containers died. In this report, the pod has its old address
    or no address. Then the kubelet creates the new sandbox. While the gate waits in the new
    sandbox, the kubelet (1.37) may report nothing but the time when that sandbox became ready. This
    time is later than the start of the container that still appears to be running, or later than
    the end of the container that failed.
    """
    ready = pod_condition(status, "PodReadyToStartContainers")
    if not ready:
        return False
    last = containers.start_time(main)
    if containers.exit_code(main):
        # A pod without an address has no usable sandbox: after a reboot, the new sandbox may be
        # ready before its address is known. If the kubelet did not observe the end of the
        # container, the reason is that the node or the containerd-shim went down. In both cases,
        # the old sandbox has died, too.
        if not status.get("podIP") or containers.is_unobserved_end(
            containers.last_end({}, status, main)
        ):
            return True
        last = containers.end_time(main)
    made = str(ready.get("lastTransitionTime") or "")
    return ready.get("status") == "False" or bool(last and made > last)
