"""The end of each step of a start on real nodes, from records that the cluster's programs write
anyway: the apiserver's audit log, containerd's log, and the output of the containers.

No additional instrumentation runs, so the measurement does not slow down the start.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from diary import Diary, has_gate
from faults.lab.audit import OPERATOR, Audit, Write
from identity import WHOLE
from space import GATE, MAIN, Body, Space

KUBELET = "kubelet"
LAUNCHER = "dijob-launcher"
# The steps of a start, in order. A loss begins with the first step, any other start with the
# second. Only pods with a gate have the steps from STATUS to SEEN, except LISTED. Only a rank that
# restarts in its pod has the steps ENDED and RESTARTED.
GONE, CREATED = "the lost pod is gone", "the pods are created"
NODES, SANDBOXES = "the pods have nodes", "the pods have sandboxes"
INSTALLED = "the launchers are installed"
WAITING = "the launchers or gates run"
STATUS = "the pod statuses show the gates"
LISTED = "the peer list is received"
OPENED, SEEN = "the gates open", "the kubelet sees the gates' end"
ENDED, RESTARTED = "the other rank's program has ended", "its container runs again"
FIRST, IMPORTED = "the first line of output", "the program is imported"
MESHED = "the mesh is complete"
STEPS = (
    GONE,
    CREATED,
    NODES,
    SANDBOXES,
    INSTALLED,
    WAITING,
    STATUS,
    LISTED,
    OPENED,
    SEEN,
    ENDED,
    RESTARTED,
    FIRST,
    IMPORTED,
    MESHED,
)
# The steps that the operator performs.
OURS = (CREATED, LISTED)
# The pod's status has its address. This is not one of STEPS, because later steps can begin before
# it.
ADDRESSED = "the pod has an address"

# The messages of containerd's log are matched as text. If a version of containerd changes them, the
# table has no figures for their steps.
_LINE = re.compile(r'^time="([^"]+)" level=info msg="(.*)"$')
_SANDBOX = re.compile(
    r'RunPodSandbox for name:\\"([^\\]+)\\".* namespace:\\"([^\\]+)\\" returns sandbox id \\"(\w+)'
)
_REQUESTED = re.compile(
    r'CreateContainer within sandbox \\"(\w+)\\" for container name:\\"([^\\]+)\\"'
)
_CREATED = re.compile(
    r'CreateContainer within sandbox \\"(\w+)\\" for name:\\"([^\\]+)\\"(?: attempt:\d+)?'
    r' returns container id \\"(\w+)'
)
_STARTED = re.compile(r'StartContainer for \\"(\w+)\\" returns successfully')
_EXITED = re.compile(r'received container exit event container_id:\\"(\w+)')
# The file in which the launcher keeps the newest message of the channel (env/paths.go).
RECEIVED = "/run/dijob/last-run/said.json"


@dataclass(frozen=True)
class Pod:
    """The times (epoch seconds) at which a pod completed its steps."""

    steps: Mapping[str, float]

    def between(self, first: str, last: str) -> float:
        return self.steps[last] - self.steps[first]


@dataclass(frozen=True)
class Start:
    """The times (epoch seconds) at which the last pod of a start completed each step, and how often
    the operator wrote to a pod although its peer list had been sent.
    """

    begin: float
    ends: Mapping[str, float]
    pods: tuple[Pod, ...]
    reminders: int

    def durations(self) -> dict[str, float]:
        """Return the seconds of each step; 0 for a step that ended before the previous one."""
        found, before = {}, self.begin
        for step, end in self.ends.items():
            found[step] = max(0.0, end - before)
            # Steps of different pods overlap. Each step takes the time by which it delays the whole
            # start.
            before = max(before, end)
        return found

    def until(self, step: str) -> float:
        """Return the seconds from the beginning of the start to the end of a step."""
        before = STEPS[: STEPS.index(step) + 1]
        return max(end for each, end in self.ends.items() if each in before) - self.begin

    @property
    def seconds(self) -> float:
        """Return the seconds from the beginning to the complete mesh."""
        return max(self.ends.values()) - self.begin

    @property
    def operators(self) -> float:
        """Return the seconds during which the next step depended on the operator."""
        took = self.durations()
        return sum(took.get(step, 0.0) for step in OURS)


@dataclass(frozen=True)
class Sources:
    """The sources: a namespace, the recorded watch of its pods, and the audit log since then."""

    space: Space
    diary: Diary
    audit: Audit

    def start(self, names: Sequence[str], begin: float) -> Start:
        """Return the start of these pods, which began at `begin` (epoch seconds)."""
        writes = [
            write
            for write in self.audit.each("")
            if write.namespace == self.space.name and write.came >= begin
        ]
        runtime = self._runtime()
        pods = [
            Pod(
                {
                    step: at
                    for step, at in self._steps(name, writes, runtime.get(name, {}))
                    if at >= begin
                }
            )
            for name in names
        ]
        ends = {
            step: max(pod.steps[step] for pod in pods if step in pod.steps)
            for step in STEPS
            if any(step in pod.steps for pod in pods)
        }
        # The first patch of a pod with a gate writes the peer list, and every further one is a
        # reminder. A pod with a channel is not patched, unless its launcher could not connect.
        patches = sum(
            (write.verb, write.kind, write.agent) == ("patch", "pods", OPERATOR)
            and write.name in names
            for write in writes
        )
        gated = sum({LISTED, OPENED} <= pod.steps.keys() for pod in pods)
        return Start(begin, ends, tuple(pods), patches - gated)

    def began(self, verb: str, kind: str, name: str) -> float:
        """Return the time of the last request of this kind from kubectl."""
        return max(
            write.came
            for write in self.audit.each("")
            if (write.verb, write.kind, write.name) == (verb, kind, name)
            and (write.agent, write.namespace) == ("kubectl", self.space.name)
        )

    def _steps(
        self, name: str, writes: list[Write], runtime: Mapping[str, list[float]]
    ) -> Iterator[tuple[str, float]]:
        """Yield the steps that this pod has completed, in order.

        The steps can include those of an earlier pod of the same name.
        """

        def answers(verb: str, kind: str, agent: str, until: float = math.inf) -> list[float]:
            return [
                write.answered
                for write in writes
                if (write.verb, write.kind, write.name) == (verb, kind, name)
                and write.agent == agent
                and write.came <= until
            ]

        log = self.space.logs(name)
        told = WHOLE.search(log)
        started, whole = (float(told[1]), float(told[2])) if told else (0.0, 0.0)
        first = {
            GONE: answers("delete", "pods", KUBELET)[-1:],
            CREATED: answers("create", "pods", OPERATOR)[-1:],
            NODES: answers("create", "pods/binding", "kube-scheduler")[-1:],
            SANDBOXES: runtime.get("sandbox", []),
            INSTALLED: runtime.get(f"exit {LAUNCHER}", [])[-1:],
        }
        last = {
            FIRST: _floats(log.splitlines()[:1]),
            IMPORTED: [started],
            MESHED: [started + whole],
        }
        gate = self._printed(name, GATE) if self._newest(name, has_gate_container) else []
        if gate:
            # The operator reacts to the first status with an address and a running gate, so later
            # patches of the status do not belong to this step.
            known = self._shown(name, lambda pod: has_gate(pod) and has_address(pod))
            middle = {
                WAITING: gate[:1],
                STATUS: answers("patch", "pods/status", KUBELET, known)[-1:],
                LISTED: answers("patch", "pods", OPERATOR)[:1],  # any further one is a reminder
                OPENED: gate[-1:],
                SEEN: runtime.get(f"request {MAIN}", [])[-1:],
            }
        else:
            runs, ends = runtime.get(f"start {MAIN}", []), runtime.get(f"exit {MAIN}", [])
            middle = {WAITING: runs[:1], LISTED: self._received(name)}
            if len(runs) > 1:
                middle |= {ENDED: ends[-1:], RESTARTED: runs[-1:]}
        for step, at in (first | middle | last).items():
            yield from ((step, each) for each in at)
        shown = self._shown(name, has_address)
        yield from ((ADDRESSED, at) for at in answers("patch", "pods/status", KUBELET, shown)[-1:])

    def _received(self, name: str) -> list[float]:
        """Return the time at which the launcher of a pod received its newest peer list. A plain pod
        has no peer list.
        """
        if not self._newest(name, lambda pod: bool(pod["metadata"].get("ownerReferences"))):
            return []
        return _floats([self.space.execute(name, "stat", "-c", "%.Y", RECEIVED)])

    def _newest(self, name: str, test: Callable[[Body], bool]) -> bool:
        """Return whether the newest version of a pod in the watch passes a test."""
        return test(
            next(
                pod for _, _, pod in reversed(self.diary.entries) if pod["metadata"]["name"] == name
            )
        )

    def _shown(self, name: str, wanted: Callable[[Body], bool]) -> float:
        """Return the time at which the watch first showed the newest pod of this name in the wanted
        state; 0 if it has not.
        """
        seen = [(at, pod) for at, _, pod in self.diary.entries if pod["metadata"]["name"] == name]
        # A lost pod and its replacement have the same name; only the newest one counts.
        newest = seen[-1][1]["metadata"]["uid"]
        return next(
            (at for at, pod in seen if pod["metadata"]["uid"] == newest and wanted(pod)), 0.0
        )

    def _printed(self, pod: str, container: str) -> list[float]:
        """Return the time of each line that a container has printed."""
        text = self.space.kubectl("logs", pod, "-c", container, "--timestamps")
        return [epoch(line.partition(" ")[0]) for line in text.splitlines()]

    def _runtime(self) -> dict[str, dict[str, list[float]]]:
        """Return for each pod when its newest sandbox was ready, and when each of its containers in
        that sandbox was requested, has started and has ended ("start NAME").
        """
        found: dict[str, dict[str, list[float]]] = {}
        sandboxes: dict[str, str] = {}
        containers: dict[str, tuple[str, str]] = {}

        def note(pod: str, what: str, at: float) -> None:
            found[pod].setdefault(what, []).append(at)

        for at, text in self._containerd():
            if (match := _SANDBOX.match(text)) and match[2] == self.space.name:
                sandboxes[match[3]] = match[1]
                found[match[1]] = {"sandbox": [at]}
            elif (match := _REQUESTED.match(text)) and match[1] in sandboxes:
                note(sandboxes[match[1]], f"request {match[2]}", at)
            elif (match := _CREATED.match(text)) and match[1] in sandboxes:
                containers[match[3]] = sandboxes[match[1]], match[2]
            elif (match := _STARTED.match(text)) and match[1] in containers:
                pod, name = containers[match[1]]
                note(pod, f"start {name}", at)
            elif (match := _EXITED.match(text)) and match[1] in containers:
                pod, name = containers[match[1]]
                note(pod, f"exit {name}", at)
        return found

    def _containerd(self) -> list[tuple[float, str]]:
        """Return the lines of all nodes in order: a pod can be re-created on another node."""
        logs = (
            self.space.cluster.logs / f"{node}-containerd.log" for node in self.space.cluster.nodes
        )
        lines = (line for log in logs for line in log.read_text().splitlines())
        return sorted((epoch(found[1]), found[2]) for found in map(_LINE.match, lines) if found)


def has_address(pod: Body) -> bool:
    return bool(pod["status"].get("podIP"))


def has_gate_container(pod: Body) -> bool:
    return any(one["name"] == GATE for one in pod["spec"].get("initContainers") or ())


def epoch(stamp: str) -> float:
    """Return the epoch seconds of an RFC 3339 time with nanoseconds (datetime cannot parse it)."""
    seconds, _, rest = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}+00:00").timestamp() + float(f"0.{rest or 0}")


def _floats(words: Iterable[str]) -> list[float]:
    return [float(word) for word in words]
