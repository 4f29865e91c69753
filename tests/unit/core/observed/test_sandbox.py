"""How a status shows that a pod's sandbox has died, and which of its addresses is used."""

import json

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.controller.cache.children import Children
from dijob.core.observed.views import Pod
from samples.builders import Body, container, job, job_body, pod_body, read
from samples.statuses import KUBELET_1_37, condition, main_status, terminated
from simulator.simulated import simulated

WAITING: Body = {"waiting": {"reason": "PodInitializing"}}


@pytest.mark.parametrize(
    ("phase", "ready_to_start", "sandbox"),
    [
        ("Running", "False", False),
        ("Running", "True", True),
        ("Pending", "False", True),
        ("Failed", "False", True),
    ],
)
def test_a_dead_sandbox_of_a_running_pod_is_recognized(
    phase: str, ready_to_start: str, sandbox: bool
) -> None:
    conditions = [condition("PodReadyToStartContainers", ready_to_start)]
    assert read(pod_body(phase=phase, conditions=conditions)).containers.sandbox is sandbox


@pytest.mark.parametrize(
    ("made", "began", "sandbox"),
    [
        ("2026-05-04T12:00:00Z", "2026-05-04T12:00:01Z", True),
        ("2026-05-04T12:00:01Z", "2026-05-04T12:00:01Z", True),
        ("2026-05-04T12:00:12Z", "2026-05-04T12:00:01Z", False),
        ("2026-05-04T12:00:12Z", "", True),
        ("", "2026-05-04T12:00:01Z", True),
    ],
    ids=["before it", "with it", "after it", "of no time", "no time is said"],
)
@pytest.mark.parametrize("state", ["running", "failed"])
def test_a_container_older_than_its_sandbox_died_with_another_one(
    made: str, began: str, sandbox: bool, state: str
) -> None:
    """Kubelet 1.37 and containerd 2.4, while the gate waits in the new sandbox, and before it
    exists: for a moment a dead shim appears as a failure at the old address.
    """
    ready = condition("PodReadyToStartContainers", lastTransitionTime=made)
    running, failed = {"running": {"startedAt": began}}, terminated(255, finishedAt=began)
    main = main_status(state=running if state == "running" else failed)
    shown = pod_body(
        phase="Running", podIP="10.0.0.1", conditions=[ready], containerStatuses=[main]
    )
    assert read(shown).containers.sandbox is sandbox


@pytest.mark.parametrize("ips", [("10.0.0.1", "fd00::1"), ("fd00::1", "10.0.0.1")])
def test_the_first_of_two_addresses_is_used(ips: tuple[str, str]) -> None:
    """Dual stack: status.podIP, the first of status.podIPs, belongs to the node's first family."""
    both = [{"ip": ip} for ip in ips]
    assert read(pod_body(podIP=ips[0], podIPs=both)).ip == ips[0]


@pytest.mark.parametrize(
    ("ip", "code", "sandbox"), [("", 255, False), ("10.0.0.1", 255, True), ("", 0, True)]
)
def test_an_ended_container_without_an_address_died_with_its_sandbox(
    ip: str, code: int, sandbox: bool
) -> None:
    """Kubelet 1.37, after its node was without power for a moment: it reports the new sandbox
    before the new address.
    """
    shown = pod_body(
        phase="Running",
        podIP=ip,
        conditions=[condition("PodReadyToStartContainers")],
        containerStatuses=[main_status(state=terminated(code))],
    )
    assert read(shown).containers.sandbox is sandbox


@pytest.mark.parametrize(("reason", "sandbox"), [("Unknown", False), ("Error", True)])
def test_a_container_whose_end_was_not_observed_died_with_its_sandbox(
    reason: str, sandbox: bool
) -> None:
    """Containerd 2.4 that starts and finds its shim dead. A program that exits 255 has the reason
    Error.
    """
    shown = pod_body(
        phase="Running",
        podIP="10.0.0.1",
        conditions=[condition("PodReadyToStartContainers")],
        containerStatuses=[main_status(state=terminated(255, reason=reason))],
    )
    assert read(shown).containers.sandbox is sandbox


def test_a_sandbox_without_a_condition_is_alive() -> None:
    assert read(pod_body(phase="Running")).containers.sandbox


BEFORE, SAME, AFTER = (f"2026-05-04T12:00:0{second}Z" for second in (4, 5, 6))
FOUND_DEAD = condition(
    "PodReadyToStartContainers", "False", lastTransitionTime=SAME, reason="PodSandboxNotReady"
)
COMMANDLESS = {"containers": [container(command=None)]}


def over(phase: str, main: Body, owner: DIJob, *init: Body) -> Pod:
    """A pod without a sandbox in which nothing runs any more."""
    return read(
        pod_body(
            0,
            owner,
            phase=phase,
            podIP="10.0.0.1",
            conditions=[FOUND_DEAD],
            containerStatuses=[main],
            initContainerStatuses=list(init),
        )
    )


@pytest.mark.parametrize(
    ("phase", "code", "at", "lost"),
    [
        pytest.param("Failed", 1, BEFORE, False, id="failed before"),
        pytest.param("Failed", 143, SAME, False, id="by the launcher: never in the same second"),
        pytest.param("Failed", 143, AFTER, True, id="ended after"),
        pytest.param("Failed", 1, AFTER, True, id="with a code of its own"),
        pytest.param("Succeeded", 0, SAME, False, id="succeeded, the sandbox went with the pod"),
        pytest.param("Succeeded", 0, AFTER, True, id="ended after, with 0"),
        pytest.param(
            "Running", 0, AFTER, True, id="ended afterwards with 0, before the phase shows it"
        ),
    ],
)
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_program_that_ended_after_its_sandbox_has_neither_failed_nor_succeeded(
    phase: str, code: int, at: str, lost: bool, policy: str
) -> None:
    """H18: the sandbox of an ended pod is always gone, and only time stamps show which
    ended first.
    """
    main = main_status(state=terminated(code, finishedAt=at))
    pod = over(phase, main, job({"restartPolicy": policy}))
    assert pod.containers.sandbox is not lost
    assert pod.containers.succeeded is (code == 0 and not lost)
    if phase != "Running":
        assert pod.failed is (code != 0 or lost)


@pytest.mark.parametrize(
    ("reported", "succeeded"), [(BEFORE, True), ("", True), (SAME, False), (AFTER, False)]
)
def test_without_a_launcher_an_exit_0_that_is_reported_with_the_dead_sandbox_is_no_success(
    reported: str, succeeded: bool
) -> None:
    """A kubelet reports a normal end a second before it stops the sandbox."""
    owner = job({**COMMANDLESS, "restartPolicy": "Never"})
    ended = main_status(state=terminated(0, finishedAt=SAME))
    unready = condition("ContainersReady", "False", lastTransitionTime=reported)
    shown = pod_body(
        0,
        owner,
        phase="Succeeded",
        conditions=[FOUND_DEAD, *([unready] if reported else [])],
        containerStatuses=[ended],
    )
    found = read(shown).containers
    assert (found.succeeded, found.sandbox) == (succeeded, succeeded)


def following(owner: DIJob, *statuses: Body) -> Pod:
    """Return the view of a pod that has had these statuses one after the other."""
    store = Children.of(()).pods
    for version, status in enumerate(statuses):
        body = pod_body(0, owner, **status)
        body["metadata"]["resourceVersion"] = str(7 + version)
        store.show(body)
    (pod,) = store
    return pod


SINCE = {"lastTransitionTime": BEFORE}
RUNS = main_status(state={"running": {"startedAt": BEFORE}})
ALIVE: Body = {
    "phase": "Running",
    "conditions": [condition("PodReadyToStartContainers", "True", **SINCE)],
    "containerStatuses": [RUNS],
}
DEAD: Body = {**ALIVE, "conditions": [FOUND_DEAD]}


def ended_at_once(phase: str, code: int, restarts: int = 0) -> Body:
    """A status of a container that ended in the second in which its sandbox was found dead."""
    state = terminated(code, finishedAt=SAME)
    return {
        "phase": phase,
        "conditions": [FOUND_DEAD],
        "containerStatuses": [main_status(restarts, state=state)],
    }


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_an_exit_0_after_the_sandbox_was_observed_dead_is_no_success(policy: str) -> None:
    """The end and the sandbox's death have the same second, and no condition tells them apart."""
    owner = job({**COMMANDLESS, "restartPolicy": policy})
    over_, again = ended_at_once("Running", 0), ended_at_once("Succeeded", 0)
    pod = following(owner, ALIVE, DEAD, over_, again)
    assert (pod.containers.sandbox, pod.containers.succeeded, pod.failed) == (False, False, True)
    assert following(owner, ALIVE, over_, again).containers.succeeded


def test_a_failure_after_the_sandbox_was_observed_dead_does_not_count() -> None:
    owner = job({**COMMANDLESS, "restartPolicy": "Never"})
    over_ = ended_at_once("Failed", 3)
    assert not following(owner, ALIVE, DEAD, over_).containers.sandbox
    assert following(owner, ALIVE, over_).containers.sandbox


def test_a_container_that_restarts_in_a_new_sandbox_can_succeed() -> None:
    owner = job({**COMMANDLESS, "restartPolicy": "OnFailure"})
    failed = ended_at_once("Running", 3)
    anew = {**ALIVE, "containerStatuses": [main_status(1, state={"running": {"startedAt": AFTER}})]}
    done = {**ended_at_once("Succeeded", 0, 1), "conditions": ALIVE["conditions"]}
    assert following(owner, DEAD, failed, anew).containers.sandbox
    assert following(owner, DEAD, failed, anew, done).containers.succeeded


def test_a_success_before_the_sandbox_died_counts() -> None:
    """A second container keeps the pod alive until its sandbox dies."""
    owner = job({**COMMANDLESS, "restartPolicy": "Never"})
    done = terminated(0, finishedAt=BEFORE)
    alive = {**ALIVE, "containerStatuses": [main_status(state=done)]}
    dead = {**alive, "conditions": [FOUND_DEAD]}
    pod = following(owner, alive, dead, {**dead, "phase": "Succeeded"})
    assert pod.containers.succeeded


@pytest.mark.parametrize(("code", "lost"), [(137, True), (143, True), (1, False), (128, False)])
def test_without_a_launcher_a_kill_in_the_same_second_counts_as_the_sandboxs_death(
    code: int, lost: bool
) -> None:
    """H18: main containers without a command, and the template's init containers."""
    ended = terminated(code, finishedAt=SAME)
    owner = job({**COMMANDLESS, "restartPolicy": "Never"})
    main = over("Failed", main_status(state=ended), owner)
    init = over("Failed", main_status(state=WAITING), owner, main_status(name="own", state=ended))
    assert (main.containers.sandbox, init.containers.sandbox) == (not lost, not lost)


@pytest.mark.parametrize(
    ("name", "code"),
    [(names.GATE_CONTAINER, 143), (names.LAUNCHER_CONTAINER, 137), (names.GATE_CONTAINER, 128)],
)
def test_a_pod_that_failed_in_a_container_of_the_operator_does_not_count(
    name: str, code: int
) -> None:
    """H16: restartPolicy Never, and the sandbox dies while the gate waits, whatever the time
    stamps.
    """
    ended = main_status(name=name, state=terminated(code, finishedAt=BEFORE))
    pod = over("Failed", main_status(state=WAITING), job({"restartPolicy": "Never"}), ended)
    assert (pod.containers.failures, pod.failed) == (0, True)


@pytest.mark.virtual_time
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_under_never_a_rank_whose_sandbox_died_gets_a_new_pod_without_a_failure(
    phase: str,
) -> None:
    """H16, H18: with backoffLimit 0 the job keeps running."""
    async with simulated(job_body({"restartPolicy": "Never"}, backoffLimit=0)) as world:
        await world.running()
        pod = world.cluster.pod("job-1")
        pod.kill(code=0 if phase == "Succeeded" else 143)
        assert pod.phase == phase
        await world.until(lambda: pod.uid not in world.cluster.pods)
        await world.running()
        status = world.cluster.job().status
        assert (status.restarts, status.phase, status.succeeded_ranks) == (0, "Running", "")


RECORDED: Body = json.loads(KUBELET_1_37.read_text())["ends"]
LOST = [name for name in RECORDED if name.startswith("its sandbox died")]


@pytest.mark.parametrize("name", RECORDED)
def test_real_statuses_of_ended_pods_are_classified(name: str) -> None:
    """H16, H18: real pods of 1.37.2 with restartPolicy Never."""
    spec: Body = {"launcher": "Off"} if "without a launcher" in name else {}
    body = pod_body(0, job({"restartPolicy": "Never"}, **spec), **RECORDED[name]["status"])
    pod = read(body)
    costs = pod.containers.failures if pod.containers.sandbox else 0
    assert costs == (1 if name.startswith("it exited") else 0)
    assert pod.containers.succeeded is name.startswith("it succeeded")
    assert pod.failed is not name.startswith("it succeeded")
    assert pod.containers.sandbox is (name not in LOST)
