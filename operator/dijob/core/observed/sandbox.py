"""Whether a pod's sandbox has died under it, read from its raw status.

All that runs in a pod ends with its sandbox: when the pause process or its shim is killed, or when
the node reboots. That is no failure of the program. With restartPolicy OnFailure the kubelet makes
a new sandbox in the same pod. With Never, or if the program exits 0 when it is told to end, the pod
is over, and only times show what happened: the kubelet reports that the sandbox is not ready
(PodReadyToStartContainers) before it ends the containers, while in any other pod the containers end
first. These times have whole seconds. So the launcher, once it is told to end, does not exit before
the next second (images/launcher/told.go). Of a container without a launcher, an end by SIGTERM or
SIGKILL in that very second is taken for one with the sandbox.
"""

from collections.abc import Mapping
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.scheduling import condition

Body = Mapping[str, Any]

# 128 + SIGKILL, 128 + SIGTERM.
KILLED = (137, 143)


def died(status: Body, main: Body, launched: bool) -> bool:
    """Whether the pod's sandbox has died, and no new one is known yet. `launched`: the launcher
    runs the program of the main container.
    """
    if status.get("phase") == "Running":
        return _died_under_it(status, main)
    if containers.exit_code(main) is not None:
        return ended_with_it(status, main, launched)
    init = status.get("initContainerStatuses") or ()
    return any(containers.exit_code(one) and ended_with_it(status, one) for one in init)


def ended_with_it(status: Body, container: Body, launched: bool = False) -> bool:
    """Whether a container that has ended did so because the kubelet had found its sandbox dead."""
    ready, ended = (
        condition(status, "PodReadyToStartContainers"),
        (container.get("state") or {}).get("terminated") or {},
    )
    since, at = str(ready.get("lastTransitionTime") or ""), str(ended.get("finishedAt") or "")
    if ready.get("status") != "False" or not (since and at):
        return False
    return at > since or (at == since and ended.get("exitCode") in KILLED and not launched)


def _died_under_it(status: Body, main: Body) -> bool:
    """The kubelet reports the containers that died with a sandbox before it makes the new one, with
    the old address or none. Then it may report nothing but when the new one was ready (1.37), as
    long as the gate waits in it: it is newer than the container that is still said to run, or than
    the end of one that has failed.
    """
    ready = condition(status, "PodReadyToStartContainers")
    if not ready:
        return False
    last = containers.started(main)
    if containers.exit_code(main):
        # After a reboot the new one may be ready, and its address not be known yet. Who did not see
        # the container end has lost all that was in the sandbox.
        if not status.get("podIP") or containers.unseen(containers.last_end({}, status, main)):
            return True
        last = containers.ended(main)
    made = str(ready.get("lastTransitionTime") or "")
    return ready.get("status") == "False" or bool(last and made > last)
