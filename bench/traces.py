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
# The steps of a start, in order. A loss begins with the first step, any other start with the
# second.
GONE, CREATED, LISTED = "the lost pod is gone", "the pods are created", "the peer list is written"
OPENED, SEEN, FIRST = (
    "the gates open",
    "the kubelet sees the gates' end",
    "the first line of output",
)
IMPORTED = "the program is imported"
STEPS = (
    GONE,
    CREATED,
    "the pods have nodes",
    "the pods have sandboxes",
    "the launcher is installed, the gate runs",
    "the pod statuses show it",
    LISTED,
    OPENED,
    SEEN,
    FIRST,
    IMPORTED,
    "the mesh is complete",
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
_CONTAINER = re.compile(
    r'CreateContainer within sandbox \\"(\w+)\\" for container name:\\"([^\\]+)\\"'
)


@dataclass(frozen=True)
class Pod:
    """The times (epoch seconds) at which a pod completed its steps."""

    steps: Mapping[str, float]

    def between(self, first: str, last: str) -> float:
        return self.steps[last] - self.steps[first]


@dataclass(frozen=True)
class Start:
    """The times (epoch seconds) at which the last pod of a start completed each step, and how often
    a kubelet had to be reminded of the peer list.
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
        # The first patch of each pod writes the peer list. Every further one is a reminder.
        patches = sum(
            (write.verb, write.kind, write.agent) == ("patch", "pods", OPERATOR)
            and write.name in names
            for write in writes
        )
        return Start(begin, ends, tuple(pods), patches - sum(LISTED in pod.steps for pod in pods))

    def began(self, verb: str, kind: str, name: str) -> float:
        """Return the time of the last request of this kind from kubectl."""
        return max(
            write.came
            for write in self.audit.each("")
            if (write.verb, write.kind, write.name) == (verb, kind, name)
            and (write.agent, write.namespace) == ("kubectl", self.space.name)
        )

    def _steps(
        self, name: str, writes: list[Write], runtime: Mapping[str, float]
    ) -> Iterator[tuple[str, float]]:
        """Yield the steps that this pod has completed, in order.

        They can include steps of an earlier pod of the same name.
        """

        def answers(verb: str, kind: str, agent: str, until: float = math.inf) -> list[float]:
            return [
                write.answered
                for write in writes
                if (write.verb, write.kind, write.name) == (verb, kind, name)
                and write.agent == agent
                and write.came <= until
            ]

        gate, log = self._printed(name, GATE), self.space.logs(name)
        told = WHOLE.search(log)
        started, whole = (float(told[1]), float(told[2])) if told else (0.0, 0.0)
        # The operator reacts to the first status with an address and a running gate, so later
        # patches of the status do not belong to this step.
        known = self._shown(name, lambda pod: has_gate(pod) and has_address(pod))
        ends: tuple[Iterable[float], ...] = (
            answers("delete", "pods", KUBELET)[-1:],
            answers("create", "pods", OPERATOR)[-1:],
            answers("create", "pods/binding", "kube-scheduler")[-1:],
            [at for at in [runtime.get("sandbox")] if at],
            gate[:1],
            answers("patch", "pods/status", KUBELET, known)[-1:],
            answers("patch", "pods", OPERATOR)[:1],  # any further patch is a reminder
            gate[-1:],
            [at for at in [runtime.get(MAIN)] if at],
            _floats(log.splitlines()[:1]),
            [started],
            [started + whole],
        )
        for step, at in zip(STEPS, ends, strict=True):
            yield from ((step, each) for each in at)
        shown = self._shown(name, has_address)
        yield from ((ADDRESSED, at) for at in answers("patch", "pods/status", KUBELET, shown)[-1:])

    def _shown(self, name: str, wanted: Callable[[Body], bool]) -> float:
        """Return when the watch first showed the newest pod of this name in the wanted state; 0 if
        it has not.
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

    def _runtime(self) -> dict[str, dict[str, float]]:
        """Return for each pod when its newest sandbox was ready, and when the kubelet requested the
        newest container of each name.
        """
        found: dict[str, dict[str, float]] = {}
        sandboxes: dict[str, str] = {}
        for at, text in self._containerd():
            if (match := _SANDBOX.match(text)) and match[2] == self.space.name:
                sandboxes[match[3]] = match[1]
                found.setdefault(match[1], {})["sandbox"] = at
            elif (match := _CONTAINER.match(text)) and match[1] in sandboxes:
                found[sandboxes[match[1]]][match[2]] = at
        return found

    def _containerd(self) -> Iterator[tuple[float, str]]:
        for node in self.space.cluster.nodes:
            log = self.space.cluster.logs / f"{node}-containerd.log"
            for match in filter(None, map(_LINE.match, log.read_text().splitlines())):
                yield epoch(match[1]), match[2]


def has_address(pod: Body) -> bool:
    return bool(pod["status"].get("podIP"))


def epoch(stamp: str) -> float:
    """Return the epoch seconds of an RFC 3339 time with nanoseconds (datetime cannot parse it)."""
    seconds, _, rest = stamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{seconds}+00:00").timestamp() + float(f"0.{rest or 0}")


def _floats(words: Iterable[str]) -> list[float]:
    return [float(word) for word in words]
