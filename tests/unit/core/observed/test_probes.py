"""H11: if the kubelet has killed a program, the message says why: which probe failed, for example.
It does so even if the kubelet has no record of the program's end.
"""

from typing import Any

import pytest
from dijob.api.status import Charge
from dijob.controller.observe.event_reader import EventReader
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core.membership import failures
from dijob.core.observed import parse
from dijob.core.observed.endings import UNSEEN, how_it_ended
from dijob.core.observed.pod_events import end_before, kill_cause, unexplained_ends, with_causes
from dijob.core.observed.views import Pod
from fakes.fake_api import FakeApi
from samples.builders import NOW, Body, container, job, pod_body
from samples.statuses import RUNNING, looping, main_status, terminated

PROBE = {"httpGet": {"port": 1}}
BEGAN, KILLED, ENDED = (f"2026-05-04T12:00:{second}Z" for second in ("00", "20", "50"))
WHY = "HTTP probe failed with statuscode: 500"


def event(reason: str, message: str, at: str = KILLED, about: str = "di-container") -> Body:
    return {
        "type": "Warning" if reason == "Unhealthy" else "Normal",
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"fieldPath": f"spec.containers{{{about}}}"},
    }


def killing(kind: str = "liveness", at: str = KILLED, name: str = "di-container") -> Body:
    text = f"Container {name} failed {kind} probe, will be restarted"
    return event("Killing", text, at, name)


def ended(
    name: str = "di-container", probe: str = "livenessProbe", code: int = 143, *, hook: bool = False
) -> Pod:
    what = {"lifecycle": {"postStart": PROBE}} if hook else {probe: PROBE}
    owner = job(pod={"containers": [container(**what), {"name": "side", "image": "x"}]})
    status = looping(code) | {"name": name}
    status["lastState"] = terminated(code, startedAt=BEGAN, finishedAt=ENDED, message="step 7")
    return parse.parse_pod(pod_body(owner=owner, phase="Running", containerStatuses=[status]))


def unrecorded(name: str = "di-container", **status: Any) -> Pod:
    """Return a pod with a container that was restarted, and of whose end there is no record."""
    owner = job(pod={"containers": [container(), {"name": "side", "image": "x"}]})
    names = ("di-container", "side")
    given = [
        main_status(int(each == name), each, state={"running": {"startedAt": ENDED}})
        for each in names
    ]
    status = {"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": given, **status}
    return parse.parse_pod(pod_body(owner=owner, **status))


UNHEALTHY = event("Unhealthy", f"Liveness probe failed: {WHY}\n")
HOOK = "its postStart hook failed"
STARTUP = event("Unhealthy", "Startup probe errored and resulted in unknown: timeout")
CASES: dict[str, tuple[list[Body], str]] = {
    "liveness": ([UNHEALTHY, killing()], f"its liveness probe failed: {WHY}"),
    "startup": ([STARTUP, killing("startup")], "its startup probe failed: timeout"),
    "no event explains why": ([killing()], "its liveness probe failed"),
    "it failed, and did not end it": ([UNHEALTHY], ""),
    "the run before": ([killing(at="2026-05-04T11:59:59Z")], ""),
    "another container": ([killing(name="side")], ""),
    "a readiness probe": (
        [event("Unhealthy", "Readiness probe failed: no"), killing()],
        "its liveness probe failed",
    ),
    "its hook": ([event("FailedPostStartHook", "PostStartHook failed")], HOOK),
    "the hook of another container": (
        [event("FailedPostStartHook", "PostStartHook failed", about="side")],
        "",
    ),
}


@pytest.mark.parametrize(("events", "cause"), CASES.values(), ids=CASES)
def test_the_probe_that_killed_a_container_is_found(events: list[Body], cause: str) -> None:
    end = ended().containers.last_end
    assert end is not None
    assert kill_cause(events, "di-container", end) == cause


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        (ended(), True),
        (ended(probe="startupProbe"), True),
        (ended(hook=True), True),
        (ended(code=1), True),
        (ended(probe="readinessProbe"), False),
        (ended(name="side"), False),
        (ended(code=0), False),
        (unrecorded(), True),
        (unrecorded("side"), True),
        (unrecorded(phase="Failed", reason="Evicted"), False),
    ],
    ids=[
        "liveness",
        "startup",
        "a hook",
        "an own exit code",
        "readiness",
        "another container",
        "success",
        "no record",
        "no record of another container",
        "no record, the pod failed",
    ],
)
def test_events_are_read_only_for_ends_that_they_may_explain(pod: Pod, asked: bool) -> None:
    assert bool(list(unexplained_ends([pod]))) is asked


class Events(FakeApi):
    def __init__(self, events: list[Body]) -> None:
        super().__init__()
        self.events, self.reads = events, 0

    async def get(self, path: str, **query: Any) -> Body:
        self.reads += 1
        return {"items": self.events}


async def test_the_message_names_the_probe_and_its_events_are_read_once() -> None:
    api, memory, pod = Events([UNHEALTHY, killing()]), PodMemory(), ended()
    for _ in range(2):
        await EventReader(api.api()).read(job().metadata, [pod], memory)
    assert api.reads == 1
    known = with_causes(pod, memory.causes)
    words = f"was killed by the kubelet: its liveness probe failed: {WHY}"
    assert known.complaint.startswith(f"container di-container {words}, and restarts")
    first = failures.first_of(known, Charge(rank=0), NOW)
    assert first.cause == f"its liveness probe failed: {WHY}"
    assert with_causes(pod, {}) == pod


LOST = "failed, but its node has no record of how"
LATER = "2026-05-04T12:00:51Z"
UNRECORDED: dict[str, tuple[list[Body], str]] = {
    "liveness": (
        [UNHEALTHY, killing()],
        f"was killed by the kubelet: its liveness probe failed: {WHY}",
    ),
    "hook": (
        [event("FailedPostStartHook", "PostStartHook failed")],
        f"was killed by the kubelet: {HOOK}",
    ),
    "eviction": (
        [event("Evicted", "The node was low on resource: memory. ", about="")],
        "was killed by the kubelet: Evicted: The node was low on resource: memory.",
    ),
    "out of memory": (
        [event("OOMKilling", "Memory cgroup out of memory: Killed process 7", about="")],
        "was killed by the kubelet: OOMKilling: Memory cgroup out of memory: Killed process 7",
    ),
    "the run after": ([killing(at=LATER)], LOST),
    "only a warning": ([UNHEALTHY, event("FailedPreStopHook", "PreStopHook failed")], LOST),
    "nothing": ([], LOST),
}


@pytest.mark.parametrize(("events", "words"), UNRECORDED.values(), ids=UNRECORDED)
async def test_events_explain_an_end_without_a_record(events: list[Body], words: str) -> None:
    api, memory, pod = Events(events), PodMemory(), unrecorded()
    for _ in range(2):
        await EventReader(api.api()).read(job().metadata, [pod], memory)
    assert api.reads == 1
    first = failures.first_of(with_causes(pod, memory.causes), Charge(rank=0), NOW)
    assert (first.exit_code, first.reason, first.container) == (None, "Unknown", "")
    said = how_it_ended(first.exit_code, first.signal, first.reason, first.message, first.cause)
    assert said == words


def test_an_event_about_an_earlier_end_explains_no_later_one() -> None:
    pod = unrecorded()
    end, key = pod.containers.last_end, (pod.uid, "di-container", ENDED)
    assert end is not None
    known = {
        (pod.uid, "di-container", KILLED),
        (pod.uid, "di-container", LATER),
        (pod.uid, "side", ENDED),
        ("another", "di-container", "2026-05-04T12:00:40Z"),
    }
    assert end_before(key, known) == KILLED
    assert end_before((pod.uid, "side", ENDED), known) == ""
    assert kill_cause([killing(at=BEGAN)], "di-container", end, KILLED) == ""
    assert kill_cause([killing(at=BEGAN)], "di-container", end) == "its liveness probe failed"


@pytest.mark.parametrize("end", UNSEEN)
def test_an_end_that_was_not_observed_has_no_signal_in_its_message(end: tuple[str, int]) -> None:
    reason, code = end
    status = {"name": "di-container", "lastState": terminated(code, reason=reason), **RUNNING}
    pod = parse.parse_pod(pod_body(phase="Running", containerStatuses=[status]))
    last = pod.containers.last_end
    assert last is not None
    assert last.words == f"{LOST} ({reason})"
