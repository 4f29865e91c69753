"""What keeps a pod from being Ready, other than its program: another container, a readiness gate, a
probe. The statuses are those that a kubelet 1.37 has written.
"""

from typing import Any

import pytest
from dijob.controller.observe.event_reader import EventReader
from dijob.controller.observe.pod_memory import PodMemory
from dijob.core.observed import diagnose
from dijob.core.observed.pod_events import with_probe
from dijob.core.observed.unexplained import probes_due
from dijob.core.observed.views import Pod
from fakes.fake_api import FakeApi
from samples.builders import NOW, Body, container, gang, job, later, observed, pod_body, read
from samples.statuses import condition, gate, main_status, terminated

BEGAN = "2026-05-04T11:58:00Z"
YOUNG = "2026-05-04T11:59:55Z"
FAILS: Body = {"exec": {"command": ["false"]}}
LISTENS: Body = {"tcpSocket": {"port": 50515}}
BESIDE: Body = {"name": "proxy", "image": "x"}
SIDECAR: Body = {**BESIDE, "restartPolicy": "Always"}
LOG = "its program is running but not Ready: kubectl logs job-0 may show why"
PROXY = "container proxy is not Ready: its"


def runs(name: str = "di-container", *, ready: bool = True, since: str = BEGAN, **own: Any) -> Body:
    state = {"running": {"startedAt": since}}
    return {**main_status(name=name, state=state), "ready": ready, "started": True, **own}


def ends(code: int, restarts: int = 0, message: str = "") -> Body:
    state = terminated(code, startedAt=BEGAN, finishedAt=BEGAN, message=message)
    return {**main_status(restarts, name="proxy", state=state), "ready": False, "started": False}


def waits(name: str = "di-container") -> Body:
    return {**main_status(name=name, state={"waiting": {"reason": "PodInitializing"}})}


def unready(*conditions: Body, **pod: Any) -> Pod:
    """Return the view of a pod that is not Ready. `main` are fields of its main container, `init`
    and `containers` further ones, `before` and `now` the statuses of both kinds.
    """
    main, init = container(**pod.get("main", {})), pod.get("init", [])
    extra = {"readinessGates": pod["gates"]} if "gates" in pod else {}
    given = {"containers": [main, *pod.get("containers", [])], "initContainers": init, **extra}
    owner = job(pod=given)
    not_ready = condition("Ready", "False", reason="ContainersNotReady")
    return read(
        pod_body(
            0,
            owner,
            phase="Running",
            podIP="10.0.0.1",
            conditions=[not_ready, *conditions],
            initContainerStatuses=pod.get("before", []),
            containerStatuses=pod.get("now", [runs()]),
        )
    )


def told(pod: Pod) -> str:
    text = diagnose.not_ready(gang(), [0], observed(pod), NOW)
    return text.removeprefix("rank 0: ")


SET = condition("example.com/x", "False", message="not in the load balancer")
GATE = {"gates": [{"conditionType": "example.com/x"}]}
CASES: dict[str, tuple[Pod, str]] = {
    "a sidecar that exits 0": (
        unready(init=[SIDECAR], before=[ends(0, 2)]),
        "container proxy exited 0 and is restarted repeatedly",
    ),
    "a sidecar that exits with the code of a requested restart": (
        unready(init=[SIDECAR], before=[ends(85, 2, "dijob: renewal, list 1")]),
        "container proxy exited 85: dijob: renewal, list 1",
    ),
    "a sidecar that is not ready": (
        unready(init=[SIDECAR | {"readinessProbe": FAILS}], before=[runs("proxy", ready=False)]),
        f"{PROXY} readinessProbe is failing",
    ),
    "a second container that is not ready": (
        unready(
            containers=[BESIDE | {"readinessProbe": FAILS}],
            now=[runs(), runs("proxy", ready=False)],
        ),
        f"{PROXY} readinessProbe is failing",
    ),
    "a second container that has not started": (
        unready(
            containers=[BESIDE | {"startupProbe": FAILS, "readinessProbe": FAILS}],
            now=[runs(), runs("proxy", ready=False, started=False)],
        ),
        f"{PROXY} startupProbe is failing",
    ),
    "a second container that has exited 0": (
        unready(containers=[BESIDE], now=[runs(), ends(0)]),
        "container proxy exited 0, and a pod with a terminated container is not Ready",
    ),
    "a readiness gate that is not set": (
        unready(**GATE),
        "readiness gate example.com/x is not set",
    ),
    "a readiness gate that is False": (
        unready(SET, **GATE),
        "readiness gate example.com/x is False: not in the load balancer",
    ),
    "its own readiness probe": (
        unready(main={"readinessProbe": FAILS}, now=[runs(ready=False)]),
        "its program is running, but its readinessProbe is failing",
    ),
    "its own startup probe": (
        unready(main={"startupProbe": FAILS}, now=[runs(ready=False, started=False)]),
        "its program is running, but its startupProbe is failing",
    ),
    "the operator's probe: its program does not listen": (
        unready(now=[runs(ready=False)]),
        LOG,
    ),
    "an own probe of the same port": (
        unready(main={"readinessProbe": LISTENS}, now=[runs(ready=False)]),
        LOG,
    ),
    "an init container": (
        unready(
            init=[BESIDE | {"name": "fetch"}], before=[runs("fetch", ready=False)], now=[waits()]
        ),
        "init container fetch has been running since 2026-05-04T11:58Z",
    ),
    "an init container that has just started": (
        unready(
            init=[BESIDE | {"name": "fetch"}],
            before=[runs("fetch", ready=False, since=YOUNG)],
            now=[waits()],
        ),
        "it is starting",
    ),
    "a sidecar that has not started": (
        unready(
            init=[SIDECAR | {"startupProbe": FAILS}],
            before=[runs("proxy", ready=False, started=False)],
            now=[waits()],
        ),
        f"{PROXY} startupProbe is failing",
    ),
    "the gate, and a sidecar that nothing waits for": (
        unready(
            init=[SIDECAR | {"readinessProbe": FAILS}],
            before=[runs("proxy", ready=False), gate(state={"running": {"startedAt": BEGAN}})],
            now=[waits()],
        ),
        "it is starting",
    ),
}


@pytest.mark.parametrize(("pod", "text"), CASES.values(), ids=CASES)
def test_the_message_names_what_keeps_a_pod_from_being_ready(pod: Pod, text: str) -> None:
    assert told(pod) == text


def test_a_ready_pod_has_no_cause() -> None:
    body = pod_body(conditions=[condition("Ready")], containerStatuses=[runs()])
    assert read(body).unready is None


FAILING = unready(
    containers=[BESIDE | {"readinessProbe": FAILS}], now=[runs(), runs("proxy", ready=False)]
)


class Events(FakeApi):
    reads = 0
    message = "Readiness probe failed: dial tcp 10.0.0.1:80: connection refused\n"

    async def get(self, path: str, **query: Any) -> Body:
        self.reads += 1
        about = {"fieldPath": "spec.containers{proxy}"}
        event = {"reason": "Unhealthy", "message": self.message, "involvedObject": about}
        return {"items": [{**event, "type": "Warning", "lastTimestamp": BEGAN}]}


async def test_the_message_quotes_the_probe_and_its_events_are_read_once() -> None:
    api, memory = Events(), PodMemory()
    for _ in range(2):
        await EventReader(api.api()).read(job().metadata, [FAILING], memory)
    assert api.reads == 1
    known = with_probe(FAILING, memory.probes)
    why = "dial tcp <pod IP>:80: connection refused"
    assert told(known) == f"{PROXY} readinessProbe is failing: {why}"
    memory.saw_pods([read(pod_body())], NOW)
    assert memory.probes == {}


async def test_events_without_the_probe_are_read_again_later() -> None:
    api, memory = Events(), PodMemory()
    api.message = "Liveness probe failed: no"
    for _ in range(2):
        await EventReader(api.api()).read(job().metadata, [FAILING], memory)
    assert (api.reads, memory.probes, list(memory.due)) == (1, {}, [FAILING.uid])


@pytest.mark.parametrize(
    ("pod", "known", "due"),
    [
        (FAILING, {}, True),
        (FAILING, {("proxy", "readiness"): "no"}, False),
        (unready(now=[runs(ready=False)]), {}, False),
        (unready(main={"readinessProbe": FAILS}, now=[runs(ready=False, since=YOUNG)]), {}, False),
    ],
    ids=["failing", "known", "the operator's", "young"],
)
def test_events_are_read_once_for_each_probe_that_fails(
    pod: Pod, known: dict[tuple[str, str], str], due: bool
) -> None:
    assert bool(probes_due([pod, pod], known, {}, NOW)) is due
    assert len(probes_due([pod, pod], known, {}, NOW)) <= 1
    assert probes_due([pod], known, {pod.uid: later(5)}, NOW) == ()
