"""What jobs wait for on real nodes: names for programs (C1), old pods (C25, C41), deletions (C17,
C18).
"""

import json
from collections.abc import Iterator
from contextlib import suppress

import pytest
from cluster.errors import ClusterError
from jobs import LIGHT, Body, job, shell
from space import Space

pytestmark = pytest.mark.e2e

HOLD = "example.com/hold"
DEAF = "trap '' TERM; while :; do sleep 1; done"
ENDS = "trap 'exit 0' TERM; sleep 3600 & wait"
SERVES = "python3 -m http.server 8000"


def looks_up(name: str) -> str:
    """Return a program that looks up a name once, and fails if it does not resolve."""
    return f"python3 -c \"import socket; socket.getaddrinfo('{name}', 1)\" && {SERVES}"


def container(name: str, script: str, **fields: object) -> Body:
    return {"name": name, "image": LIGHT, "command": ["bash", "-c", script], **fields}


def until_resolves(name: str) -> str:
    return f"until getent hosts {name}; do sleep 0.2; done"


INIT = container("wait", until_resolves("init-1.init"))
SIDECAR = container(
    "proxy",
    "sleep 3600",
    restartPolicy="Always",
    startupProbe={"exec": {"command": ["getent", "hosts", "side-1.side"]}, "periodSeconds": 1},
)
PROBE = {"exec": {"command": ["getent", "hosts", "probe-1.probe"]}, "periodSeconds": 1}
NAMED: dict[str, Body] = {
    "once": shell("once", looks_up("once-0.once"), replicas=6, backoffLimit=0),
    "other": shell("other", looks_up("other-2.other"), replicas=3, backoffLimit=0, runtime="torch"),
    "init": shell("init", SERVES, pod={"initContainers": [INIT]}, backoffLimit=0),
    "side": shell("side", SERVES, pod={"initContainers": [SIDECAR]}, backoffLimit=0),
    "probe": job(
        "probe",
        {"command": ["bash", "-c", f"{until_resolves('probe-0.probe')}; {SERVES}"]}
        | {"readinessProbe": PROBE},
        backoffLimit=0,
    ),
}


def test_names_resolve_before_any_program_looks_them_up(space: Space) -> None:
    """C1: with service: Always. All jobs start together, so that the control plane is busy."""
    for body in NAMED.values():
        body["spec"]["service"] = "Always"
    space.apply(*NAMED.values())
    for name in NAMED:
        space.until_true(name, "Running", 300)
        assert space.status(name).get("restarts", 0) == 0


@pytest.fixture
def held(space: Space) -> Iterator[Space]:
    """Yield a space whose finalizers are removed at the end."""
    try:
        yield space
    finally:
        for kind in ("pods", "dijobs"):
            with suppress(ClusterError):
                for one in space.kubectl("get", kind, "-o=name").split():
                    off = ("--type=merge", '-p={"metadata":{"finalizers":null}}')
                    space.kubectl("patch", one, *off)


def finalizer(space: Space, *what: str) -> None:
    space.kubectl("patch", *what, "--type=merge", f'-p={{"metadata":{{"finalizers":["{HOLD}"]}}}}')


def until_said(space: Space, name: str, words: str, seconds: float = 120) -> None:
    def problem() -> str:
        said = [one["message"] for one in space.status(name).get("conditions", ())]
        return "" if any(words in each for each in said) else f"{said} without {words!r}"

    space.until(f"{name} says {words!r}", problem, seconds)


def test_the_reason_that_keeps_an_old_pod_is_named(held: Space) -> None:
    """C41: a container that ignores SIGTERM; C25: a finalizer."""
    proxy = container("proxy", DEAF, restartPolicy="Always")
    slow = {"terminationGracePeriodSeconds": 300, "initContainers": [proxy]}
    held.apply(
        shell("slow", ENDS, pod=slow),
        shell("kept", ENDS, pod={"terminationGracePeriodSeconds": 2}),
    )
    for name in ("slow", "kept"):
        held.until_true(name, "Running")
    finalizer(held, "pod", "kept-1")
    for name in ("slow", "kept"):
        held.kubectl("delete", "pod", f"{name}-1", "--wait=false")
    old = "rank 1: its old pod is still terminating:"
    until_said(held, "slow", f"{old} containers proxy, di-container were")
    until_said(held, "slow", "(grace period: 300 s)")
    until_said(held, "kept", f"{old} finalizer {HOLD} blocks its deletion until")
    held.kubectl("patch", "dijob", "slow", "--type=merge", '-p={"spec":{"suspend":true}}')
    until_said(held, "slow", "still terminating (pod slow-")


def test_a_deletion_in_the_foreground_waits_for_the_pods(space: Space) -> None:
    """Regression test for the report C17."""
    space.apply(shell("front", DEAF, pod={"terminationGracePeriodSeconds": 8}))
    space.until_true("front", "Running")
    space.kubectl("delete", "dijob", "front", "--cascade=foreground", "--timeout=180s", timeout=190)
    assert space.names("front") == []


def test_the_status_of_a_job_held_by_a_finalizer_stays_correct(held: Space) -> None:
    """C18: its pods are gone, or keep running and their programs fail."""
    fails = "sleep 15; exit 3"
    held.apply(
        shell("stuck", ENDS, replicas=3, pod={"terminationGracePeriodSeconds": 2}),
        shell("fails", fails, backoffLimit=2),
    )
    for name in ("stuck", "fails"):
        held.until_true(name, "Running")
        finalizer(held, "dijob", name)
    held.kubectl("delete", "dijob", "stuck", "--cascade=foreground", "--wait=false")
    held.kubectl("delete", "dijob", "fails", "--wait=false")

    def problem() -> str:
        status = held.status("stuck")
        shown = [status.get(key, 0) for key in ("phase", "replicas", "readyReplicas")]
        told = status["message"]
        right = shown == ["Terminating", 0, 0] and HOLD in told and "no pods are left" in told
        return "" if right else json.dumps([shown, status.get("message")])

    held.until("its figures are true and its finalizer is named", problem, 180)
    held.until_true("fails", "Failed", 300)
    assert held.status("fails")["restarts"] > 2
