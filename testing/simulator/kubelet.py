"""A simulated kubelet: the sandbox, gate and containers of a pod, and the status that a real
kubelet would report.
"""

import copy
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dijob import names
from dijob.api.status import format_time
from dijob.controller.channel.launchers import Launchers
from dijob.core.observed.made import main_name
from dijob.core.observed.parse import END_SECONDS
from dijob.core.observed.reports import LauncherState
from dijob.pod import CHANNEL, LAUNCH, RENEWAL_CODE, RESTART_POLICY

from simulator.containers import Box, Process
from simulator.environment import environment_of
from simulator.gangs import group_of
from simulator.launcher import Annotations, SimConnection
from simulator.objects import Body, Target

CONFIRM_SECONDS = 30
# The errors of a node that cannot mount the launcher's image (core/observed/mounting.py): the
# reason of the container, and the message.
NOT_MOUNTED = (
    "CreateContainerError",
    'failed to generate container "c" spec: failed to apply OCI options: failed to mkdir "":'
    " mkdir : no such file or directory",
)
NOT_FOUND = (
    "StartError",
    f'exec: "{LAUNCH}": stat {LAUNCH}: no such file or directory: unknown',
)


@dataclass
class SimPod:
    """One pod object with its simulated containers."""

    body: Body
    boxes: list[Box]
    clock: Callable[[], datetime]
    ip: str = ""
    sandbox: bool = False
    new_sandbox: bool = False  # the gate does not know how the program last ended
    imaged: bool = False  # the image is on the node
    ready: bool = False
    disrupted: bool = False
    homeless: bool = False
    silent: bool = False  # the node is lost, so no kubelet ends the pod
    stuck: bool = False  # the launcher or the program does not respond
    failed: str = ""
    process: Process | None = None
    placed: str = ""
    sandbox_gone: str = ""  # when the kubelet noticed it
    addresses: set[str] = field(default_factory=set)
    waits_since: datetime | None = None  # the launcher waits until a failure is counted
    crashes: int = 0  # failures of the program itself, which may be counted
    link: SimConnection | None = None  # the launcher's connection to the operator
    said: Annotations = field(default_factory=dict)  # what the operator has sent to the launcher
    blocked: bool = False  # the launcher cannot connect
    moved: datetime | None = None  # when the program last made progress
    no_mount: tuple[str, str] = ("", "")  # the error of a node that cannot mount images

    @staticmethod
    def of(body: Body, clock: Callable[[], datetime]) -> "SimPod":
        return SimPod(body, [Box(c["name"]) for c in body["spec"]["containers"]], clock)

    def copy(self, clock: Callable[[], datetime]) -> "SimPod":
        """Return an independent copy of the pod."""
        boxes = [replace(box) for box in self.boxes]
        return replace(self, boxes=boxes, addresses=set(self.addresses), clock=clock, link=None)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def rank(self) -> int:
        return int(self._annotations.get(names.LEGACY_RANK, -1))  # a pod of another owner has none

    @property
    def group(self) -> str:
        """The name of its PodGroup; "" if it has none."""
        return group_of(self.body)

    @property
    def main(self) -> Box:
        main = main_name(self.body["spec"])
        return next(box for box in self.boxes if box.name == main)

    @property
    def target(self) -> Target:
        return Target("pods", self.body["metadata"]["namespace"], self.name)

    @property
    def gated(self) -> bool:
        """Whether the pod has a gate."""
        return any(
            c["name"] == names.GATE_CONTAINER for c in self.body["spec"].get("initContainers") or ()
        )

    @property
    def reports(self) -> bool:
        """Whether the pod has a channel in place of a gate."""
        return CHANNEL in environment_of(self.body)

    @property
    def unmountable(self) -> bool:
        """Whether the containers of the pod cannot start, because they need an image volume."""
        before = self.body["spec"].get("initContainers") or ()
        installs = any(one["name"] == names.LAUNCHER_CONTAINER for one in before)
        return bool(self.no_mount[0]) and self.ranked and not installs

    @property
    def ranked(self) -> bool:
        """Whether the operator has created the pod for a rank."""
        return self.gated or self.reports

    @property
    def never(self) -> bool:
        return bool(self.body["spec"].get("restartPolicy") == "Never")

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.body["metadata"]

    @property
    def done(self) -> bool:
        """Whether the kubelet is finished with the pod."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def phase(self) -> str:
        if self.failed:
            return "Failed"
        if all(box.state == "dead" and (self.never or box.last == 0) for box in self.boxes):
            return "Failed" if any(box.last for box in self.boxes) else "Succeeded"
        started = any(box.state != "waiting" or box.last is not None for box in self.boxes)
        return "Running" if started else "Pending"

    def place(self, ip: str) -> None:
        """Create a sandbox: the first one, or a new one for the same pod. The gate runs (again)."""
        self.ip, self.sandbox, self.homeless = ip, True, False
        self.new_sandbox = True
        self.addresses.add(ip)
        self.body = {**self.body, "spec": {**self.body["spec"], "nodeName": "node"}}
        for box in self.boxes:
            if box.last != 0:
                box.state = "waiting"

    @property
    def has_image(self) -> bool:
        """Whether the pod has its sandbox, and its image is on the node. The image is checked only
        for the pod of a rank.
        """
        return self.sandbox and (self.imaged or not self.ranked)

    def gate_opens(self) -> bool:
        """Whether the gate opens, as in the launcher's gate/gate.go: the list must have this pod's
        address or name at the position of its rank.
        """
        return not self.gated or self.is_listed()

    def is_listed(self) -> bool:
        """Whether the peer list has this pod's address or name at the position of its rank."""
        ips = self._annotations.get(names.ANNOTATION_IPS, "").split(",")
        return len(ips) > self.rank and ips[self.rank] in (self.ip, f"{self.name}.job")

    def startable(self) -> list[Box]:
        """Return the containers that the kubelet would start now."""
        if not self.has_image or self.done or self.deleting or self.silent:
            return []
        if self.unmountable and (self.gated or self.no_mount is NOT_MOUNTED):
            return []
        waiting = [box for box in self.boxes if box.state == "waiting"]
        dead = [box for box in self.boxes if box.state == "dead" and box.last and not self.never]
        return dead + (waiting if waiting and self.gate_opens() else [])

    def start(self) -> Process | None:
        """Start all containers that can start. Return the process of the main container if it
        started.
        """
        boxes = self.startable()
        for box in boxes:
            box.start(format_time(self.clock()))
        if self.unmountable:
            self.main.error, message = self.no_mount
            self.main.end(128, format_time(self.clock()), message)
            return None
        if self.main not in boxes or not self.ranked:
            return None
        forgotten, self.new_sandbox = self.new_sandbox, False
        waits = environment_of(self.body).get(RESTART_POLICY) == "OnFailure" and not forgotten
        if self.main.failed_before and waits:
            self.waits_since = self.clock()
            return None
        return None if self.reports else self.start_program()

    @property
    def launchable(self) -> bool:
        """Whether the launcher in the main container waited for the peer list and now has it."""
        waits = self.main.state == "running" and self.process is None and self.waits_since is None
        return self.reports and waits and self.is_listed() and not (self.silent or self.done)

    def talk(self, operator: Launchers, loop: AbstractEventLoop) -> None:
        """Let the launcher connect to the operator, and let it report the state of its program."""
        runs = self.reports and self.main.state == "running"
        if not runs or self.blocked or self.silent:
            return
        view = operator.pods.find(self.uid)
        if (self.link is None or not self.link.open) and view is not None:
            self.link = SimConnection(operator, loop, view, self.ip, self.said, self.idle)
        if self.link is not None:
            waits = LauncherState.READY if self.ready else LauncherState.STARTED
            self.link.report(waits if self.process else LauncherState.WAITING)

    def idle(self) -> float | None:
        """Return how many seconds ago the program last made progress; None if it has not."""
        running = self.moved is not None and self.process is not None
        return (self.clock() - self.moved).total_seconds() if running and self.moved else None

    def make_progress(self) -> None:
        """Let the program make progress, and its launcher report it."""
        self.moved = self.clock()
        if self.link is not None:
            self.link.report_progress()

    def hang_up(self) -> None:
        """End the launcher's connection. Everything that the operator has sent is kept, even for
        the next launcher in this sandbox.
        """
        if self.link is not None:
            self.said = self.link.said
            self.link.close()
            self.link = None

    @property
    def confirmed(self) -> bool:
        """Whether the program may restart after a failure, as in the launcher's run/record.go: the
        failure was counted, or 30 s have passed without the operator's confirmation.
        """
        if self.waits_since is None or self.main.state != "running":
            return False
        counted = int(self._annotations.get(names.ANNOTATION_ENDS) or 0)
        return (
            counted >= self.main.restarts
            or (self.clock() - self.waits_since).total_seconds() >= CONFIRM_SECONDS
        )

    def start_program(self) -> Process:
        """Start the program, as the launcher does."""
        self.waits_since = self.moved = None
        told = {**self.body["metadata"], "annotations": self._annotations}
        body = {**self.body, "metadata": told}
        self.process = Process(self.rank, self.uid, environment_of(body, self.ip))
        return self.process

    def end(self, box: Box, code: int) -> None:
        """End a container with an exit code."""
        box.end(code, format_time(self.clock()))
        self.crashes += 1 if code else 0
        self.ready = False
        if box is self.main:
            self.process = None
            self.hang_up()

    def resize(self, memory: str) -> None:
        """Resize the main container with the resizePolicy RestartContainer: the kubelet ends it and
        restarts it at once.
        """
        spec = copy.deepcopy(self.body["spec"])
        main = next(c for c in spec["containers"] if c["name"] == self.main.name)
        main["resources"]["limits"]["memory"] = memory
        self.body = {**self.body, "spec": spec}
        now = format_time(self.clock())
        self.main.end(143, now)
        self.main.start(now)
        self.process, self.waits_since = None, self.clock()
        self.hang_up()

    @property
    def due(self) -> bool:
        """Whether the program must restart because its list is too old, as in the launcher's
        run/launch.go.
        """
        told = int(self._annotations.get(names.ANNOTATION_RENEW) or 0)
        return (
            self.process is not None
            and told > self.process.list_number
            and not (self.silent or self.stuck)
        )

    def renew(self) -> None:
        """End the program for a re-rendezvous, as the launcher does. Its message says that this is
        not a failure; the operator accepts that only if it requested the restart.
        """
        number = int(self._annotations[names.ANNOTATION_RENEW])
        asked = number <= int(self._annotations.get(names.ANNOTATION_LIST_NUMBER) or 0)
        self.crashes += 0 if asked else 1
        said = f"dijob: renewal, list {number}\n"
        self.main.end(RENEWAL_CODE, format_time(self.clock()), said)
        self.ready, self.process = False, None
        self.hang_up()

    def kill(self, reason: str = "", code: int = 137) -> None:
        """Kill the sandbox and all its containers, which exit with `code`. If a `reason` is given,
        the pod becomes Failed permanently, and its containers end before the sandbox.
        """
        self.sandbox, self.ready, self.process, self.failed = (
            False,
            False,
            None,
            self.failed or reason,
        )
        self.hang_up()
        self.said = {}
        now, later = self.clock(), self.clock() + timedelta(seconds=1)
        self.sandbox_gone = format_time(later if reason else now)
        for box in self.boxes:
            if box.state == "running":
                box.end(code, format_time(now if reason else later))

    @property
    def overdue(self) -> bool:
        return bool(self.body["spec"].get("activeDeadlineSeconds") == END_SECONDS and not self.done)

    def shown(self) -> Body:
        """Return the object as the apiserver shows it. The caller must not change it."""
        gone = {} if self.sandbox else {"lastTransitionTime": self.sandbox_gone}
        conditions = [
            {"type": "PodReadyToStartContainers", "status": str(self.sandbox), **gone},
            {"type": "Ready", "status": str(self.ready and self.main.state == "running")},
            {
                "type": "DisruptionTarget",
                "status": str(self.disrupted),
                "reason": self.why_disrupted,
            },
        ]
        if self.homeless:
            no = {
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available",
            }
            conditions.append({"type": "PodScheduled", **no})
        elif "nodeName" in self.body["spec"]:
            conditions.append(
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.placed}
            )
        status: Body = {"phase": self.phase, "conditions": conditions, "podIP": self.ip}
        if self.failed:
            status["reason"] = self.failed
        fails = self.unmountable and self.sandbox
        if fails and not self.gated and self.no_mount is NOT_MOUNTED:
            self.main.error, self.main.message = self.no_mount
        if self.ip:
            status["containerStatuses"] = [box.status() for box in self.boxes]
        if self.ip and not self.reports:
            status["initContainerStatuses"] = [
                {"name": names.GATE_CONTAINER, "state": self._gate()}
            ]
        return {**self.body, "status": status}

    def _gate(self) -> Body:
        """Return the gate's state. It runs until the first container has started in the sandbox."""
        if not self.imaged:
            return {"waiting": {"reason": "PodInitializing"}}
        if self.unmountable:
            reason, message = self.no_mount
            return {"waiting": {"reason": reason, "message": message}}
        runs = self.sandbox and not self.done and any(box.state == "waiting" for box in self.boxes)
        return {"running": {}} if runs else {"terminated": {"exitCode": 0}}

    @property
    def why_disrupted(self) -> str:
        return "DeletionByTaintManager" if self.silent else "EvictionByEvictionAPI"

    @property
    def told(self) -> tuple[int, str]:
        """The revision and the list that the pod has."""
        known = self._annotations
        return int(known.get(names.ANNOTATION_LIST_NUMBER, 0)), known.get(names.ANNOTATION_IPS, "")

    @property
    def _annotations(self) -> dict[str, str]:
        """The annotations that the launcher uses (the launcher's run/launch.go: annotations).

        The operator's newest response takes precedence. If the pod's own annotations have a newer
        list, only the pod's own annotations are used.
        """
        own = self.body["metadata"].get("annotations") or {}
        if self.link is not None:
            self.said = self.link.said
        newer = (int(each.get(names.ANNOTATION_LIST_NUMBER) or 0) for each in (own, self.said))
        if not self.said or next(newer) > next(newer):
            return own
        ends = names.ANNOTATION_ENDS
        counted = max(int(each.get(ends) or 0) for each in (own, self.said))
        return {**own, **self.said, **({ends: str(counted)} if counted else {})}
