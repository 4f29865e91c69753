"""H11: if a probe has killed a program, the message names the probe."""

from typing import Any

import pytest
from dijob.api.status import Charge
from dijob.controller.observe.event_reader import EventReader
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core.membership import failures
from dijob.core.observed import parse
from dijob.core.observed.pod_events import ends_by_probe, failed_probe, with_causes
from dijob.core.observed.views import Pod
from fakes.fake_api import FakeApi
from samples.builders import NOW, Body, container, job, pod_body
from samples.statuses import looping, terminated

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


def ended(name: str = "di-container", probe: str = "livenessProbe", code: int = 143) -> Pod:
    owner = job(pod={"containers": [container(**{probe: PROBE}), {"name": "side", "image": "x"}]})
    status = looping(code) | {"name": name}
    status["lastState"] = terminated(code, startedAt=BEGAN, finishedAt=ENDED, message="step 7")
    return parse.parse_pod(pod_body(owner=owner, phase="Running", containerStatuses=[status]))


UNHEALTHY = event("Unhealthy", f"Liveness probe failed: {WHY}\n")
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
}


@pytest.mark.parametrize(("events", "cause"), CASES.values(), ids=CASES)
def test_the_probe_that_killed_a_container_is_found(events: list[Body], cause: str) -> None:
    end = ended().containers.last_end
    assert end is not None
    assert failed_probe(events, "di-container", end) == cause


@pytest.mark.parametrize(
    ("pod", "asked"),
    [
        (ended(), True),
        (ended(probe="startupProbe"), True),
        (ended(code=1), True),
        (ended(probe="readinessProbe"), False),
        (ended(name="side"), False),
        (ended(code=0), False),
    ],
    ids=["liveness", "startup", "an own exit code", "readiness", "another container", "success"],
)
def test_events_are_read_only_for_ends_that_a_probe_may_have_caused(pod: Pod, asked: bool) -> None:
    assert bool(list(ends_by_probe([pod]))) is asked


class Events(FakeApi):
    reads = 0

    async def get(self, path: str, **query: Any) -> Body:
        self.reads += 1
        return {"items": [UNHEALTHY, killing()]}


async def test_the_message_names_the_probe_and_its_events_are_read_once() -> None:
    api, memory, pod = Events(), PodMemory(), ended()
    for _ in range(2):
        await EventReader(api.api()).read(job().metadata, [pod], memory)
    assert api.reads == 1
    known = with_causes(pod, memory.causes)
    words = f"was killed by the kubelet: its liveness probe failed: {WHY}"
    assert known.complaint.startswith(f"container di-container {words}, and restarts")
    first = failures.first_of(known, Charge(rank=0), NOW)
    assert first.cause == f"its liveness probe failed: {WHY}"
    assert with_causes(pod, {}) == pod
