"""The grace period of pods that the operator deletes."""

import pytest
from dijob.core.actions import DeletePod, ReleasePod
from dijob.core.decide.deletion import IDLE_GRACE_SECONDS, delete_pods, release_pod
from dijob.names import GATE_CONTAINER, LAUNCHER_CONTAINER
from samples.builders import Body, observed, pod_body, read, running, then
from samples.statuses import main_status

NOON = "2026-05-04T12:00:00Z"
RUNS: Body = {"running": {"startedAt": NOON}}
OVER: Body = {"terminated": {"exitCode": 0, "startedAt": NOON, "finishedAt": NOON}}
FAILED: Body = {"terminated": {"exitCode": 1, "startedAt": NOON, "finishedAt": NOON}}
WAITS: Body = {"waiting": {"reason": "PodInitializing"}}
OURS = {LAUNCHER_CONTAINER: OVER, GATE_CONTAINER: OVER}
# The init containers, the main one, and whether the pod is deleted with a short grace period.
STATES: dict[str, tuple[dict[str, Body], Body | None, bool]] = {
    "no node yet": ({}, None, True),
    "the launcher comes": ({LAUNCHER_CONTAINER: RUNS, GATE_CONTAINER: WAITS}, WAITS, True),
    "the gate waits": ({LAUNCHER_CONTAINER: OVER, GATE_CONTAINER: RUNS}, WAITS, True),
    "its program is about to start": (OURS, WAITS, True),
    "an own init container is over": ({"own": OVER, **OURS}, WAITS, True),
    "an own init container runs": ({"own": RUNS, LAUNCHER_CONTAINER: WAITS}, WAITS, False),
    "its program runs": (OURS, RUNS, False),
    "its program restarts": (OURS, {**WAITS, "restarts": 1}, False),
    "its program has failed": (OURS, FAILED, False),
}


def body(init: dict[str, Body], main: Body | None, **spec: object) -> Body:
    main = dict(main) if main else None
    restarts = main.pop("restarts", 0) if main else 0
    found = pod_body(
        initContainerStatuses=[main_status(name=name, state=one) for name, one in init.items()],
        containerStatuses=[main_status(state=main, restartCount=restarts)] if main else [],
    )
    found["spec"] |= {"terminationGracePeriodSeconds": 30, **spec}
    return found


@pytest.mark.parametrize(("init", "main", "short"), STATES.values(), ids=STATES)
def test_h44_a_pod_whose_program_has_not_started_has_a_short_grace_period(
    init: dict[str, Body], main: Body | None, short: bool
) -> None:
    """H44: SIGTERM can be lost while a container starts. The pod then took 30 s to end."""
    pod = read(body(init, main))
    grace = IDLE_GRACE_SECONDS if short else None
    assert delete_pods([pod]) == (DeletePod(pod.name, pod.uid, grace),)
    assert release_pod(pod) == ReleasePod(pod.name, pod.uid, grace)


@pytest.mark.parametrize("seconds", [0, 1, 2])
def test_h44_a_grace_period_is_never_made_longer(seconds: int) -> None:
    """H44: 0 is not made longer either, since 0 removes the object without its node."""
    pod = read(body(OURS, WAITS, terminationGracePeriodSeconds=seconds))
    assert [action.grace for action in delete_pods([pod])] == [None]


def test_h44_a_pod_with_a_running_sidecar_keeps_its_grace_period() -> None:
    """H44: the sidecar may have something to save."""
    sidecar = {"name": "own", "restartPolicy": "Always"}
    pod = read(body({"own": RUNS, **OURS}, WAITS, initContainers=[sidecar]))
    assert [action.grace for action in delete_pods([pod])] == [None]


def test_h44_the_pods_of_a_job_that_is_suspended_while_it_starts_end_quickly() -> None:
    """H44: every deletion by the operator uses the same grace period."""
    pods = [read(body(OURS, WAITS))]
    _, owner = then(running(), observed(*pods), 10, suspend=True)
    decided, _ = then(owner, observed(*pods), 11)
    assert decided.actions == (DeletePod("job-0", "uid-0", IDLE_GRACE_SECONDS),)
