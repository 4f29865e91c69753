"""Events of pods that have no address: they are read in turn, not repeatedly within seconds."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from dijob import names
from dijob.api.status import format_time
from dijob.controller.observe.event_reader import READ_AT_ONCE, EventReader
from dijob.controller.observe.pod_memory import PodMemory
from dijob.controller.reconcile import Reconciler
from dijob.core.observed.complaints import event_warning, pod_complaint
from dijob.core.observed.unexplained import READ_AGAIN_SECONDS, events_due
from dijob.core.options import Options
from dijob.kube.api import RequestError
from dijob.process.clock import Clock
from fakes.fake_api import FakeApi
from fakes.protected import children
from samples.builders import NOW, Body, changed, job, job_body, later, view
from samples.statuses import main_status

# Pods on nodes that have had neither an address nor a reason for a while.
SILENT = tuple(view(rank, ip="", created="2026-05-04T11:00:00Z") for rank in range(4))
TURNS: dict[str, tuple[dict[int, float], list[int]]] = {
    "never read": ({}, [0, 1, 2, 3]),
    "pods whose events were never read come first": ({0: -60, 1: -60}, [2, 3, 0, 1]),
    "the longest overdue first": ({0: -60, 1: -90, 2: -70, 3: -80}, [1, 3, 2, 0]),
    "not again before the interval is over": ({0: 1, 1: 0, 2: READ_AGAIN_SECONDS}, [3, 1]),
}


@pytest.mark.parametrize(("asked", "order"), TURNS.values(), ids=TURNS)
def test_for_which_pods_events_are_read(asked: dict[int, float], order: list[int]) -> None:
    known = {f"uid-{rank}": later(seconds) for rank, seconds in asked.items()}
    assert [pod.rank for pod in events_due(SILENT, known, NOW)] == order
    talks = (
        view(0, created="2026-05-04T11:00:00Z"),
        view(1, ip="", complaint="x", created="2026-05-04T11:00:00Z"),
    )
    assert events_due(talks, {}, NOW) == ()


# The seconds until the events of two other pods are read, and until those of this pod are.
TOGETHER: dict[str, tuple[tuple[float, ...], float]] = {
    "no other pod": ((), 10),
    "soon after another pod": ((6,), 6),
    "with the later one of two pods": ((2, 7), 7),
    "not much earlier than asked": ((4,), 10),
    "not later than asked": ((11,), 10),
    "others are overdue": ((-3,), 10),
}


@pytest.mark.parametrize(("others", "seconds"), TOGETHER.values(), ids=TOGETHER)
def test_the_events_of_several_pods_are_read_together(
    others: tuple[float, ...], seconds: float
) -> None:
    memory = PodMemory(due={f"other-{n}": later(due) for n, due in enumerate(others)})
    memory.read_again("uid-0", NOW, 10)
    assert memory.due["uid-0"] == later(seconds)


def test_on_a_slow_apiserver_events_of_slow_pods_are_read_later() -> None:
    born = NOW - timedelta(seconds=20)
    pods = [changed(pod, created=format_time(born)) for pod in SILENT]
    assert len(events_due(pods, {}, NOW, latency=0.1)) == len(pods)
    assert events_due(pods, {}, NOW, latency=1.0) == ()
    later_on = NOW + timedelta(seconds=30)
    assert len(events_due(pods, {}, later_on, latency=1.0)) == len(pods)


def test_the_status_and_event_of_a_rejected_pod_have_the_same_message() -> None:
    """T2: kubelet 1.34 adds the prefix "Pod was rejected: " to the event's message."""
    words = "Predicate NodeAffinity failed: node(s) didn't match"
    status = {
        "phase": "Failed",
        "reason": "NodeAffinity",
        "message": f"Pod was rejected: {words}",
    }
    said = event_warning({"reason": "NodeAffinity", "message": words}, "main")
    assert pod_complaint({}, status) == said == f"NodeAffinity: {words}"


def test_deleted_pods_are_forgotten() -> None:
    memory = PodMemory()
    memory.due = {f"uid-{rank}": NOW for rank in range(2)}
    memory.warnings = {f"uid-{rank}": "x" for rank in range(2)}
    memory.saw_pods([view(1)], NOW)
    assert (set(memory.due), set(memory.warnings)) == ({"uid-1"}, {"uid-1"})


def event(message: str, reason: str = "Failed", about: str = "") -> Body:
    about_container = {"fieldPath": about}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": about_container,
    }


# The messages of kubelet 1.37 and containerd 2.4 in the pod's status and in an event.
CAUSE = (
    'failed to pull and unpack image "a.example/x:1": failed to resolve image: failed to do'
    ' request: Head "https://a.example/v2/x/manifests/1": dial tcp: connection refused'
)
GATE = f"spec.initContainers{{{names.GATE_CONTAINER}}}"
NOT_PULLED = f'Failed to pull image "a.example/x:1": {CAUSE}'


@pytest.mark.parametrize(
    ("about", "container"),
    [(GATE, "main"), ("spec.containers{side}", "side"), ("", "main")],
    ids=["the gate, from the user's image", "another", "not said"],
)
def test_an_image_that_cannot_be_pulled_has_the_message_of_the_status(
    about: str, container: str
) -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": CAUSE}}
    main = main_status(name=container, image="a.example/x:1", state=waiting)
    said = event_warning(event(NOT_PULLED, about=about), "main")
    assert said == pod_complaint({}, {"containerStatuses": [main]})


def test_other_warnings_are_reported_unchanged() -> None:
    assert event_warning(event("volume x", "FailedMount"), "main") == "FailedMount: volume x"


@pytest.mark.parametrize("repeats", ["Error: ErrImagePull", "Error: ImagePullBackOff"])
async def test_a_warning_that_repeats_another_one_is_skipped(repeats: str) -> None:
    events = [event(NOT_PULLED, about=GATE), event(repeats, about=GATE)]
    told = [each | {"lastTimestamp": f"2026-05-04T12:00:0{at}Z"} for at, each in enumerate(events)]
    memory, pod = PodMemory(), changed(SILENT[0], main="main")
    await EventReader(Events(items=told).api()).read(job().metadata, [pod], memory)
    assert memory.warnings == {pod.uid: event_warning(events[0], "main")}


@dataclass
class Events(FakeApi):
    """Returns the same events for each pod."""

    items: list[Body] = field(default_factory=list)

    async def get(self, path: str, **query: str) -> Body:
        return {"items": self.items}


@dataclass
class Cluster(FakeApi):
    """The events of each pod name its own volume. Reads fail for some pods."""

    body: Body = field(default_factory=lambda: job_body(replicas=5))
    broken: set[str] = field(default_factory=set)
    read: list[str] = field(default_factory=list)

    async def get(self, path: str, **query: str) -> Body:
        if not path.endswith("/events"):
            return self.body
        uid = query["fieldSelector"].removeprefix("involvedObject.uid=")
        self.read.append(uid)
        if uid in self.broken:
            raise RequestError(503, "ServiceUnavailable", "try later")
        return {"items": [event(f"volume of {uid}", "FailedMount")]}

    async def patch(self, path: str, body: Body, **_: Any) -> Body:
        meta = {
            **self.body["metadata"],
            "resourceVersion": str(int(self.body["metadata"]["resourceVersion"]) + 1),
        }
        self.body = {
            **self.body,
            "metadata": meta,
            "status": {**self.body["status"], **body["status"]},
        }
        return self.body


@pytest.mark.parametrize("broken", [set(), {"uid-1"}], ids=["all answer", "one cannot be read"])
async def test_a_fourth_pod_is_reported_too(broken: set[str]) -> None:
    api = Cluster(broken=broken)
    known = children(*(view(rank, ip="", created="2026-05-04T11:00:00Z") for rank in range(5)))
    reconciler = Reconciler(api.api(), known, Options())
    reconciler.jobs.put(api.body)
    memory = reconciler._memories.of("job-uid")
    for _ in range(4):
        memory.last_write = -1e9  # the status is written in each reconciliation
        before = len(api.read)
        await reconciler.reconcile(("ns", "job"))
        assert len(api.read) - before <= READ_AT_ONCE
    assert sorted(api.read) == [f"uid-{rank}" for rank in range(5)]
    said = {c["type"]: c["message"] for c in api.body["status"]["conditions"]}["AddressesReady"]
    named = [rank for rank in range(5) if f"rank {rank}: FailedMount: volume of uid-{rank}" in said]
    assert named == [rank for rank in range(5) if f"uid-{rank}" not in broken]


class Steady(Clock):
    """A clock that a test advances."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return later(self.seconds)


async def test_missing_permission_to_read_events_is_logged_once_and_retried_with_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R17: there was a warning in each reconciliation."""
    no = RequestError(403, "Forbidden", "events is forbidden")
    api, clock, memory = FakeApi(lists=[no] * 99), Steady(), PodMemory()
    reader = EventReader(api.api(), clock)
    for _ in range(120):
        await reader.read(job().metadata, SILENT[:1], memory)
        clock.seconds += 5
    assert [record.getMessage() for record in caplog.records] == [
        "namespace ns: no permission to read events: 403 Forbidden: events is forbidden"
    ]
    assert len(api.calls) <= 6
