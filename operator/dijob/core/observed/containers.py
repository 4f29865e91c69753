"""How a pod's containers fare: their failures and endings, read from its raw status."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dijob import names
from dijob.core.observed.endings import Ending, ending
from dijob.pod import RENEWAL_CODE

Body = Mapping[str, Any]

# What the launcher writes as the termination message when it ends for a renewal.
RENEWED = re.compile(r"dijob: renewal, list ([0-9]{1,15})\b")
# What the launcher then writes of a program that has succeeded without its peers
# (images/launcher/watcher.go).
ALONE = "dijob: this rank works alone: "
# ... and of one whose arguments contradict its job's.
OTHERWISE = "dijob: this program says otherwise: "
# What is said of a container whose end nobody saw: by containerd that starts and finds no shim of
# it, as after a reboot (pkg/cri/server: unknownExitCode; a program that exits 255 is an Error), and
# by a kubelet that finds it no more. Docker says 255 and Error of both a reboot and a crash, so
# that there a reboot counts as a crash.
UNSEEN = (("Unknown", 255), ("ContainerStatusUnknown", 137))
# The end of a container that is restarted with all others of its pod, because one of them has a
# rule RestartAllContainers (Kubernetes 1.36, pkg/kubelet: RestartingAllContainers).
RESTARTED_WITH_ALL = "RestartingAllContainers"
# The init containers that the operator adds.
OURS = (names.LAUNCHER_CONTAINER, names.GATE_CONTAINER)


@dataclass(frozen=True)
class Containers:
    """How a pod's containers stand; the main one where nothing else is said.

    `failures` counts how often they have ended badly so far, ends that were asked for included,
    whether or not the kubelet has already started them again; of these `init_failures` are of init
    containers that are down now. Sidecars never count. `sandbox` false: the pod's sandbox has died,
    and all in it with it, and no new one is known yet (sandbox.py). `broken`: it has failed for
    good (restartPolicy Never), although a side container may hold the pod. `all_ended`: none runs
    or will be started again. `unstarted`: nothing has started in the pod but what brings the
    operator's programs, so that its image may still be on the way to the node (unless another pod
    of the job uses it there, ranked.py). `gated`: the gate runs; `gate_started` is when it started
    last. `started` and `ended` are when it started, and when it last ended; `restarts` is how often
    it has started again, `ended_for` the number of the list for which it ended last (0: for another
    reason). `unrecorded`: how it ended last is not known any more.
    """

    failures: int = 0
    init_failures: int = 0
    sandbox: bool = True
    broken: bool = False
    all_ended: bool = False
    succeeded: bool = False
    unstarted: bool = False
    gated: bool = False
    gate_started: str = ""
    last_end: Ending | None = None
    started: str = ""
    ended: str = ""
    restarts: int = 0
    ended_for: int = 0
    unrecorded: bool = False

    @property
    def ends(self) -> int:
        """How often the program has ended."""
        return self.restarts + (1 if self.ended and not self.started else 0)

    @property
    def alone(self) -> str:
        """Why its program knew no peers, where the launcher has said so at its end; else ""."""
        return self._said(ALONE)

    @property
    def otherwise(self) -> str:
        """Where its program contradicts the job, as the launcher has said at its end; else ""."""
        return self._said(OTHERWISE)

    def _said(self, mark: str) -> str:
        said = self.last_end.message if self.last_end else ""
        return said.removeprefix(mark) if said.startswith(mark) else ""


def named(status: Body, name: str) -> Body:
    """The status of one container, {} where there is none yet."""
    return next((s for s in status.get("containerStatuses") or () if s.get("name") == name), {})


def unstarted(status: Body) -> bool:
    """Whether no container has started yet but the one that brings the operator's programs.

    The gate needs the main container's image. Another init container is the template's own, and may
    wait for the program of another rank: where one has started, nothing is known of the image.
    """
    return not any(
        _has_started(one)
        for kind in ("initContainerStatuses", "containerStatuses")
        for one in status.get(kind) or ()
        if one.get("name") != names.LAUNCHER_CONTAINER
    )


def gate_started(status: Body) -> str:
    """When the gate started last; "" where it never has, or nobody says."""
    gate = _gate(status)
    now = (gate.get("state") or {}).get("running") or _last(gate) or {}
    return str(now.get("startedAt") or "")


def gated(status: Body) -> bool:
    """Whether the gate runs."""
    return "running" in (_gate(status).get("state") or {})


def exit_code(container: Body) -> int | None:
    """The exit code of a container that has ended and has not been started again; None of any
    other.
    """
    ended = (container.get("state") or {}).get("terminated")
    return None if ended is None else int(ended.get("exitCode") or 0)


def all_ended(status: Body, restart_policy: str) -> bool:
    """Whether no container runs or will be started again, which the pod's phase says only a moment
    later.
    """
    codes = [exit_code(c) for c in status.get("containerStatuses") or ()]
    if restart_policy == "Never":
        return bool(codes) and None not in codes
    return bool(codes) and all(code == 0 for code in codes)


def unseen(end: Ending | None) -> bool:
    """Whether a container has ended, and nobody saw it end: its node went down under it, or what
    holds the pod's containers (containerd-shim).
    """
    return end is not None and (end.reason, end.exit_code) in UNSEEN


def failures(spec: Body, status: Body, main: Body) -> int:
    """Return how often containers ended badly (init containers: init_failures). Those that are
    `uncounted` never do: they start again, and the rank's program runs on. In a pod with
    restartPolicy Never, and in one that has failed as a whole, all that ends together is one
    failure. Once the main container has exited 0, what the others do does not matter.
    """
    if exit_code(main) == 0:
        return int(main.get("restartCount") or 0)
    over, free = status.get("phase") == "Failed", uncounted(spec)
    given = [c for c in status.get("containerStatuses") or () if c.get("name") not in free]
    if spec.get("restartPolicy") == "Never":
        init = [c for c in status.get("initContainerStatuses") or () if c.get("name") not in free]
        ours = any(c.get("name") in OURS and _down(c) for c in init)
        users = (c for c in (*init, *given) if c.get("name") not in OURS)
        # A reason says that the pod was ended as a whole, for example evicted for its own disk.
        return int((over and not (ours and not status.get("reason"))) or any(map(_down, users)))
    if over:
        return sum(int(c.get("restartCount") or 0) for c in given) + 1
    return sum(map(_failures, given)) + init_failures(spec, status, main)


def init_failures(spec: Body, status: Body, main: Body) -> int:
    """Return how often those init containers ended badly that are down now. It falls when they
    succeed; the status keeps the highest.

    The operator's own never count, nor do init containers that ran again only because the kubelet
    made a new sandbox, nor those that the kubelet ends because the pod is over.
    """
    if (
        spec.get("restartPolicy") == "Never"
        or status.get("phase") == "Failed"
        or exit_code(main) == 0
    ):
        return 0
    free = {*OURS, *uncounted(spec)}
    given = status.get("initContainerStatuses") or ()
    return sum(_failures(c) for c in given if c.get("name") not in free and _down(c))


def uncounted(spec: Body) -> frozenset[str]:
    """Return the names of the containers whose ends are no failures: the sidecars, and init
    containers with restart rules. If the kubelet does not start one of these again, the pod fails.
    """
    ruled = (c for c in spec.get("initContainers") or () if c.get("restartPolicyRules"))
    return sidecars(spec) | {c.get("name", "") for c in ruled}


def sidecars(spec: Body) -> frozenset[str]:
    """Return the names of the containers that always start again: init containers, and from
    Kubernetes 1.35 on any other (KEP-5307).
    """
    given = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return frozenset(c.get("name", "") for c in given if c.get("restartPolicy") == "Always")


def last_end(spec: Body, status: Body, main: Body) -> Ending | None:
    """How the main container ended last; if it never ended badly, the first other container that
    did, and whose end counts.
    """
    every = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    beside = uncounted(spec)
    others = [one for one in every if one.get("name") not in beside]
    container = next((c for c in (main, *others) if (_last(c) or {}).get("exitCode")), main)
    ended = _last(container)
    if ended is None:
        return None
    found = ending(spec, container, ended)
    return replace(found, container="") if container is main else found


def renewal_of(main: Body) -> int:
    """For which address list the main container ended last, as its launcher says; 0 when it ended
    for another reason.

    A user's program may exit with the same code: the mark in the termination message is what
    counts.
    """
    return renewed(_last(main) or {})


def started(main: Body) -> str:
    """When the container that runs now was started; "" while none runs."""
    return str(((main.get("state") or {}).get("running") or {}).get("startedAt") or "")


def ended(main: Body) -> str:
    """When the container ended last; "" where it never has."""
    return str((_last(main) or {}).get("finishedAt") or "")


def unrecorded(main: Body) -> bool:
    """Whether the main container has ended before, and nobody knows how: the kubelet throws such a
    record away when it looks for dead containers just between the creation of the next and its
    start (1.34, pkg/kubelet/kuberuntime: evictableContainers).
    """
    return int(main.get("restartCount") or 0) > 0 and not _last(main)


def _gate(status: Body) -> Body:
    given = status.get("initContainerStatuses") or ()
    return next((one for one in given if one.get("name") == names.GATE_CONTAINER), {})


def _has_started(container: Body) -> bool:
    return "running" in (container.get("state") or {}) or _last(container) is not None


def renewed(end: Body) -> int:
    """The number of the list for which a container ended; 0 where it ended for another reason."""
    mark = RENEWED.match(end.get("message") or "") if end.get("exitCode") == RENEWAL_CODE else None
    return int(mark[1]) if mark else 0


def _failures(container: Body) -> int:
    return int(container.get("restartCount") or 0) + (1 if _down(container) else 0)


def _down(container: Body) -> bool:
    """Whether the container has ended badly and has not been started again yet. One that the
    kubelet restarts with all others of its pod has that restart in its count already.
    """
    state = container.get("state") or {}
    ended = state.get("terminated") or {}
    if "waiting" in state:
        ended = (container.get("lastState") or {}).get("terminated") or {}
    if not ended or ended.get("reason") == RESTARTED_WITH_ALL:
        return False
    return bool(ended.get("exitCode"))


def _last(container: Body) -> Body | None:
    state, last = container.get("state") or {}, container.get("lastState") or {}
    return state.get("terminated") or last.get("terminated")
