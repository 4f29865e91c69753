"""Reads the state of a pod's containers from its raw status: their failures, and how they ended.

A failure counts against backoffLimit, so it must be counted exactly once. But the status shows only
the last termination of each container, and the operator may have been down in the meantime.
Therefore this module returns totals ("failures so far"), and membership/failures.py compares them
with the totals that are already stored in the job's status.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dijob import names
from dijob.core.observed.endings import (
    UNSEEN,
    ContainerEnding,
    read_ending,
    unrecorded_ending,
)
from dijob.pod import RENEWAL_CODE

Body = Mapping[str, Any]

# The launcher's termination message after a requested restart. The wording of this mark and of the
# next two is an interface, because launchers of older versions write the same text.
RENEWED = re.compile(r"dijob: renewal, list ([0-9]{1,15})\b")
# The launcher's termination message for a program that succeeded without its peers
# (the launcher's run/watcher.go).
ALONE = "dijob: this rank works alone: "
# The launcher's termination message for a program whose arguments conflict with the job.
OTHERWISE = "dijob: this program says otherwise: "
# The reason in the status of a container that is restarted together with all other containers of
# its pod. This happens if one of them has a RestartAllContainers rule (Kubernetes 1.36,
# pkg/kubelet: RestartingAllContainers).
RESTARTED_WITH_ALL = "RestartingAllContainers"
# The init containers that the operator adds.
OURS = (names.LAUNCHER_CONTAINER, names.GATE_CONTAINER)


@dataclass(frozen=True)
class Containers:
    """The state of a pod's containers. Fields that do not name a container refer to the main one.

    Failures of all containers: `failures` is the number of times that containers have ended with an
    error so far. The number includes terminations for a requested restart, and terminations after
    which the container has not been restarted yet. `init_failures` says how many of these failures
    are due to init containers that are currently down. Sidecars never count.

    The pod: `sandbox` is false if the pod's sandbox has died, with everything in it, and no new one
    is known yet (sandbox.py). `all_ended`: no container is running, and none will be restarted.
    `unstarted`: only the container that installs the operator's programs has started. The main
    container's image may then not be on the node yet, unless another pod of the job uses that image
    there (ranked.py). `gated`: the gate is running. `gate_started` is when it last started.

    The main container: `outlived_sandbox` means that the operator saw the sandbox die before this
    container ended (sandbox.py). `broken` means that this container has failed and will not be
    restarted (restartPolicy Never), although another container may keep the pod alive. `started`
    and `ended` are when it started and when it last ended, and `restarts` is how many times it has
    been restarted. `ended_for` is the revision for which it was last restarted on request; 0 if it
    ended for another reason. `unrecorded`: its last termination is no longer known. `last_end` is
    its last termination, or that of another container that failed. If the status shows neither, a
    container may still have been restarted. In this case, `last_end` is the end of the restarted
    container, without an exit code. But if the pod has failed, `last_end` is None.
    """

    failures: int = 0
    init_failures: int = 0
    sandbox: bool = True
    outlived_sandbox: bool = False
    broken: bool = False
    all_ended: bool = False
    succeeded: bool = False
    unstarted: bool = False
    gated: bool = False
    gate_started: str = ""
    last_end: ContainerEnding | None = None
    started: str = ""
    ended: str = ""
    restarts: int = 0
    ended_for: int = 0
    unrecorded: bool = False

    @property
    def ends(self) -> int:
        """How many times the main container has ended."""
        return self.restarts + (1 if self.ended and not self.started else 0)

    @property
    def alone(self) -> str:
        """Why the program did not know its peers, according to its launcher; "" if the launcher has
        not reported this.
        """
        return self._said(ALONE)

    @property
    def otherwise(self) -> str:
        """How the program's arguments conflict with the job, according to its launcher; "" if the
        launcher has not reported this.
        """
        return self._said(OTHERWISE)

    def _said(self, mark: str) -> str:
        message = self.last_end.message if self.last_end else ""
        return message.removeprefix(mark) if message.startswith(mark) else ""


def container_status(status: Body, name: str) -> Body:
    """Return the status of one container; {} if it has none yet."""
    return next((s for s in status.get("containerStatuses") or () if s.get("name") == name), {})


def has_not_started(status: Body) -> bool:
    """Whether no container has started except the one that installs the operator's programs.

    The gate starts only when the main container's image is on the node. An init container of the
    template can start earlier, and some init containers wait for the program of another rank. So
    the pod must be treated as arrived once an init container of the template has started. Otherwise
    that container and the other rank would wait for each other indefinitely.
    """
    return not any(
        _has_started(one)
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind) or ()
        if one.get("name") != names.LAUNCHER_CONTAINER
    )


def gate_started(status: Body) -> str:
    """Return the time at which the gate last started; "" if it has not, or if the time is
    unknown.
    """
    gate = _gate_status(status)
    now = (gate.get("state") or {}).get("running") or _last_termination(gate) or {}
    return str(now.get("startedAt") or "")


def is_at_gate(status: Body) -> bool:
    """Whether the gate is running."""
    return "running" in (_gate_status(status).get("state") or {})


def exit_code(container: Body) -> int | None:
    """Return the exit code of a container that has ended and has not been restarted; else None."""
    ended = (container.get("state") or {}).get("terminated")
    return None if ended is None else int(ended.get("exitCode") or 0)


def all_ended(status: Body, restart_policy: str) -> bool:
    """Whether no container is running and none will be restarted. The pod's phase does not
    show this until a moment later.
    """
    codes = [exit_code(c) for c in status.get("containerStatuses") or ()]
    if restart_policy == "Never":
        return bool(codes) and None not in codes
    return bool(codes) and all(code == 0 for code in codes)


def is_unobserved_end(end: ContainerEnding | None) -> bool:
    """Whether the end of a container was not observed, because its node or its containerd-shim went
    down.
    """
    return end is not None and (end.reason, end.exit_code) in UNSEEN


def count_failures(spec: Body, status: Body, main: Body) -> int:
    """Return the number of times that containers have ended with an error (init containers: see
    init_failures).

    The terminations of `uncounted` containers are not included, because the program of the rank
    keeps running. In a pod with restartPolicy Never, and in a pod that has failed, all containers
    that ended together count as one failure. Once the main container has exited 0, the others do
    not matter.
    """
    if exit_code(main) == 0:
        return int(main.get("restartCount") or 0)
    over, free = status.get("phase") == "Failed", uncounted_containers(spec)
    given = [c for c in status.get("containerStatuses") or () if c.get("name") not in free]
    if spec.get("restartPolicy") == "Never":
        init = [c for c in status.get("initContainerStatuses") or () if c.get("name") not in free]
        ours = any(c.get("name") in OURS and _is_down(c) for c in init)
        users = (c for c in (*init, *given) if c.get("name") not in OURS)
        # If the pod's status has a reason, the whole pod was terminated, for example evicted
        # because of its own disk use.
        return int((over and not (ours and not status.get("reason"))) or any(map(_is_down, users)))
    if over:
        return sum(int(c.get("restartCount") or 0) for c in given) + 1
    return sum(map(_count_errors, given)) + init_failures(spec, status, main)


def init_failures(spec: Body, status: Body, main: Body) -> int:
    """Return how many times init containers have ended with an error, counting only those that
    are currently down. The number falls when they succeed; the job's status keeps the highest
    number.

    The operator's own init containers are not counted. Init containers that run again only because
    the kubelet created a new sandbox are not counted either. The same applies to init containers
    that the kubelet terminates because the pod has ended.
    """
    if (
        spec.get("restartPolicy") == "Never"
        or status.get("phase") == "Failed"
        or exit_code(main) == 0
    ):
        return 0
    free = {*OURS, *uncounted_containers(spec)}
    given = status.get("initContainerStatuses") or ()
    return sum(_count_errors(c) for c in given if c.get("name") not in free and _is_down(c))


def uncounted_containers(spec: Body) -> frozenset[str]:
    """Return the names of the containers whose terminations do not count as failures: sidecars, and
    init containers with restart rules. If the kubelet does not restart such an init container, the
    pod fails, and that failure counts.
    """
    ruled = (c for c in spec.get("initContainers") or () if c.get("restartPolicyRules"))
    return sidecar_names(spec) | {c.get("name", "") for c in ruled}


def sidecar_names(spec: Body) -> frozenset[str]:
    """Return the names of the containers with restartPolicy Always. These can be init containers,
    and since Kubernetes 1.35 also other containers (KEP-5307).
    """
    given = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return frozenset(c.get("name", "") for c in given if c.get("restartPolicy") == "Always")


def last_end(spec: Body, status: Body, main: Body) -> ContainerEnding | None:
    """Return the last termination of the main container. If there is none or it was not an error,
    but the last termination of another container was an error, return that one. Among several such
    containers, the first one in the pod's status is chosen; init containers come first. Containers
    other than the main container are ignored if their terminations do not count as failures.

    If the status shows none of these terminations, look for a container that has been restarted,
    but whose last termination is unknown: first the main container, then the others. If there is
    such a container, return its end without an exit code. For a failed pod, return None instead,
    because the pod's own status says more than an end without an exit code.
    """
    every = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    free = uncounted_containers(spec)
    others = [one for one in every if one.get("name") not in free]
    container = next(
        (c for c in (main, *others) if (_last_termination(c) or {}).get("exitCode")), main
    )
    ended = _last_termination(container)
    if ended is not None:
        found = read_ending(spec, container, ended)
    else:
        counted = [c for c in status.get("containerStatuses") or () if c.get("name") not in free]
        lost = next((c for c in (main, *counted) if has_unrecorded_end(c)), None)
        if lost is None or status.get("phase") == "Failed":
            return None
        container, found = lost, unrecorded_ending(lost)
    return replace(found, container="") if container is main else found


def renewal_of(main: Body) -> int:
    """Return the revision for which the main container was last restarted on request, as its
    launcher reports; 0 if it ended for another reason.

    The exit code is not enough, because a user's program may exit with the same code. The mark in
    the termination message is required as well.
    """
    return renewed_for(_last_termination(main) or {})


def start_time(main: Body) -> str:
    """Return the time at which the running container was started; "" if it is not running."""
    return str(((main.get("state") or {}).get("running") or {}).get("startedAt") or "")


def end_time(main: Body) -> str:
    """Return the time at which the container last ended; "" if it has not."""
    return str((_last_termination(main) or {}).get("finishedAt") or "")


def has_unrecorded_end(container: Body) -> bool:
    """Whether a container has ended before, but its end is no longer recorded. The kubelet discards
    the record if it removes dead containers between the creation and the start of the next
    container (1.34, pkg/kubelet/kuberuntime: evictableContainers).
    """
    return int(container.get("restartCount") or 0) > 0 and not _last_termination(container)


def _gate_status(status: Body) -> Body:
    given = status.get("initContainerStatuses") or ()
    return next((one for one in given if one.get("name") == names.GATE_CONTAINER), {})


def _has_started(container: Body) -> bool:
    return "running" in (container.get("state") or {}) or _last_termination(container) is not None


def renewed_for(end: Body) -> int:
    """Return the revision for which a container was restarted on request; 0 if it ended for another
    reason.
    """
    mark = RENEWED.match(end.get("message") or "") if end.get("exitCode") == RENEWAL_CODE else None
    return int(mark[1]) if mark else 0


def _count_errors(container: Body) -> int:
    return int(container.get("restartCount") or 0) + (1 if _is_down(container) else 0)


def _is_down(container: Body) -> bool:
    """Whether the container has ended with an error and has not been restarted yet. If the kubelet
    restarts all containers of the pod together, restartCount already includes that restart.
    """
    state = container.get("state") or {}
    ended = state.get("terminated") or {}
    if "waiting" in state:
        ended = (container.get("lastState") or {}).get("terminated") or {}
    if not ended or ended.get("reason") == RESTARTED_WITH_ALL:
        return False
    return bool(ended.get("exitCode"))


def _last_termination(container: Body) -> Body | None:
    state, last = container.get("state") or {}, container.get("lastState") or {}
    return state.get("terminated") or last.get("terminated")
