"""N3: a problem that may resolve itself within seconds is reported only after these seconds."""

import math
from datetime import datetime
from typing import Any

import pytest
from dijob.controller.observe.event_reader import EventReader
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core.observed import complaints
from dijob.core.observed.pod_events import newest_warning
from dijob.process.clock import Clock
from fakes.fake_api import FakeApi
from samples.builders import Body, job, later, view

PULL = "container di-container: ImagePullBackOff: image x:1 cannot be pulled: not found"
CONFIG = 'container di-container: CreateContainerConfigError: configmap "c" not found'
CRASH = "container di-container exited 1: boom, and restarts after a back-off (CrashLoopBackOff)"
UNSCHEDULABLE = "Unschedulable: 0/2 nodes are available"


def event(at: int, reason: str, type_: str = "Warning", first: int | None = None) -> Body:
    first_at = later(at if first is None else first)
    return {
        "type": type_,
        "reason": reason,
        "message": f"{reason} at {at}",
        "firstTimestamp": f"{first_at:%Y-%m-%dT%H:%M:%SZ}",
        "lastTimestamp": f"{later(at):%Y-%m-%dT%H:%M:%SZ}",
    }


@pytest.mark.parametrize(
    ("complaint", "seconds"),
    [(PULL, 5), (CONFIG, 5), (CRASH, 0), (UNSCHEDULABLE, 0)],
    ids=["a pull", "a missing ConfigMap", "a crash", "no node"],
)
def test_a_problem_that_the_kubelet_retries_is_reported_later(complaint: str, seconds: int) -> None:
    pod, noticed = view(1, complaint=complaint), {"uid-1": later(100)}
    before = complaints.with_due_complaint(pod, noticed, later(100 + seconds - 1))
    assert before.complaint == ("" if seconds else complaint)
    assert complaints.with_due_complaint(pod, noticed, later(100 + seconds)).complaint == complaint


def test_the_delay_counts_from_when_the_problem_was_noticed() -> None:
    memory, pod = PodMemory(), view(1, complaint=PULL)
    memory.saw_pods([pod], later(0))
    memory.saw_pods([pod], later(9))
    assert memory.noticed == {"uid-1": later(0)}
    assert memory.wait(later(3)) == 2
    memory.saw_pods([view(1)], later(10))
    assert memory.noticed == {}
    assert memory.wait(later(10)) == math.inf


EVENTS: dict[str, tuple[list[Body], str]] = {
    "none": ([], ""),
    "one": ([event(1, "FailedMount")], "FailedMount: FailedMount at 1"),
    "the newest warning": (
        [event(3, "FailedMount"), event(9, "FailedCreatePodSandBox")],
        "FailedCreatePodSandBox: FailedCreatePodSandBox at 9",
    ),
    "the kubelet has made progress since": (
        [event(1, "FailedMount"), event(3, "Pulling", "Normal")],
        "",
    ),
    "a warning after the scheduling": (
        [event(1, "Scheduled", "Normal"), event(3, "FailedMount")],
        "FailedMount: FailedMount at 3",
    ),
}


@pytest.mark.parametrize(("events", "said"), EVENTS.values(), ids=EVENTS)
def test_the_newest_warning_that_still_applies(events: list[Body], said: str) -> None:
    assert newest_warning(events, "di-container")[0] == said


class At(Clock):
    """A clock that is some seconds after NOW."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> datetime:
        return later(self._seconds)


class Events(FakeApi):
    items: list[Body]

    async def get(self, path: str, **query: Any) -> Body:
        return {"items": self.items}


@pytest.mark.parametrize(("age", "reported"), [(1, False), (4, False), (5, True), (60, True)])
async def test_a_recent_warning_is_read_again_before_it_is_reported(
    age: int, reported: bool
) -> None:
    memory, api = PodMemory(), Events()
    api.items = [event(100, "FailedMount", first=100 - age)]
    silent = view(1, ip="", created="2026-05-04T11:00:00Z")
    await EventReader(api.api(), At(100)).read(job().metadata, [silent], memory)
    assert bool(memory.warnings) is reported
    if not reported:
        assert memory.due == {"uid-1": later(100 + complaints.RETRIED_SECONDS - age)}
