"""Detects from a pod's raw status that its sandbox has died.

All containers of a pod end with its sandbox: when the pause process or its shim is killed, or when
the node reboots. This is not a failure of the program. With restartPolicy OnFailure the kubelet
creates a new sandbox in the same pod. With Never, or if the program exits 0 on SIGTERM, the pod
ends, and only time stamps show what happened: the kubelet reports that the sandbox is not ready
(PodReadyToStartContainers) before it ends the containers, while in any other pod the containers end
first. These stamps have whole seconds. So the launcher does not exit before the next second after
SIGTERM (images/launcher/told.go). If a container without a launcher ends by SIGTERM or SIGKILL in
the same second, it counts as ended with its sandbox.
"""

from collections.abc import Mapping
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.scheduling import condition

Body = Mapping[str, Any]

# 128 + SIGKILL, 128 + SIGTERM.
KILLED = (137, 143)


def died(status: Body, main: Body, launched: bool) -> bool:
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
        condition(status, "PodReadyToStartContainers"),
        (container.get("state") or {}).get("terminated") or {},
    )
    since, at = str(ready.get("lastTransitionTime") or ""), str(ended.get("finishedAt") or "")
    if ready.get("status") != "False" or not (since and at):
        return False
    return at > since or (at == since and ended.get("exitCode") in KILLED and not launched)


def _died_under_it(status: Body, main: Body) -> bool:
    """Whether the sandbox of a Running pod has died.

    The kubelet first reports the containers that died, with the old address or none, and then
    creates the new sandbox. While the gate waits in the new sandbox, the kubelet (1.37) may report
    nothing but the time when that sandbox was ready. This time is later than the start of the
    container that still appears to run, or than the end of the container that failed.
    """
    ready = condition(status, "PodReadyToStartContainers")
    if not ready:
        return False
    last = containers.started(main)
    if containers.exit_code(main):
        # After a reboot the new sandbox may be ready before its address is known. A kubelet that
        # did not observe the end of the container has lost everything in the old sandbox.
        if not status.get("podIP") or containers.unseen(containers.last_end({}, status, main)):
            return True
        last = containers.ended(main)
    made = str(ready.get("lastTransitionTime") or "")
    return ready.get("status") == "False" or bool(last and made > last)
