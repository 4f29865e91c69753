"""How a status shows that a pod's sandbox has died under it, and which of its addresses is the
pod's.
"""

import json
from pathlib import Path

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.core.observed.views import Pod
from unit.builders import Body, container, job, job_body, pod_body, read
from unit.simulated import simulated
from unit.statuses import condition, main_status, terminated

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
def test_a_sandbox_that_died_under_a_running_pod_is_seen(
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
def test_a_container_of_before_its_sandbox_was_made_has_died_with_another(
    made: str, began: str, sandbox: bool, state: str
) -> None:
    """Kubelet 1.37 and containerd 2.4, while the gate waits in the new one, and before it: there is
    a moment in which a dead shim shows as a failure at the old address.
    """
    ready = condition("PodReadyToStartContainers", lastTransitionTime=made)
    running, failed = {"running": {"startedAt": began}}, terminated(255, finishedAt=began)
    main = main_status(state=running if state == "running" else failed)
    shown = pod_body(
        phase="Running", podIP="10.0.0.1", conditions=[ready], containerStatuses=[main]
    )
    assert read(shown).containers.sandbox is sandbox


@pytest.mark.parametrize("ips", [("10.0.0.1", "fd00::1"), ("fd00::1", "10.0.0.1")])
def test_of_two_addresses_the_first_is_the_pods(ips: tuple[str, str]) -> None:
    """Dual stack: status.podIP, the first of status.podIPs, is of the node's first family."""
    both = [{"ip": ip} for ip in ips]
    assert read(pod_body(podIP=ips[0], podIPs=both)).ip == ips[0]


@pytest.mark.parametrize(
    ("ip", "code", "sandbox"), [("", 255, False), ("10.0.0.1", 255, True), ("", 0, True)]
)
def test_a_container_that_ended_and_has_no_address_any_more_went_with_its_sandbox(
    ip: str, code: int, sandbox: bool
) -> None:
    """Kubelet 1.37, after its node was without power for a moment: it says that the new sandbox is
    there before it says which address that has.
    """
    shown = pod_body(
        phase="Running",
        podIP=ip,
        conditions=[condition("PodReadyToStartContainers")],
        containerStatuses=[main_status(state=terminated(code))],
    )
    assert read(shown).containers.sandbox is sandbox


@pytest.mark.parametrize(("reason", "sandbox"), [("Unknown", False), ("Error", True)])
def test_a_container_whose_end_nobody_saw_went_with_its_sandbox(reason: str, sandbox: bool) -> None:
    """Containerd 2.4 that starts and finds its shim dead. A program that exits 255 is an Error."""
    shown = pod_body(
        phase="Running",
        podIP="10.0.0.1",
        conditions=[condition("PodReadyToStartContainers")],
        containerStatuses=[main_status(state=terminated(255, reason=reason))],
    )
    assert read(shown).containers.sandbox is sandbox


def test_a_sandbox_of_which_nothing_is_said_is_there() -> None:
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
        pytest.param("Running", 0, AFTER, True, id="ended after, with 0, before the phase says so"),
    ],
)
@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_program_that_ended_after_its_sandbox_is_lost_and_has_neither_failed_nor_succeeded(
    phase: str, code: int, at: str, lost: bool, policy: str
) -> None:
    """H18: in a pod that is over, the sandbox is always gone, and only times show which came
    first.
    """
    main = main_status(state=terminated(code, finishedAt=at))
    pod = over(phase, main, job({"restartPolicy": policy}))
    assert pod.containers.sandbox is not lost
    assert pod.containers.succeeded is (code == 0 and not lost)
    if phase != "Running":
        assert pod.failed is (code != 0 or lost)


@pytest.mark.parametrize(("code", "lost"), [(137, True), (143, True), (1, False), (128, False)])
def test_without_a_launcher_a_kill_in_the_same_second_went_with_the_sandbox(
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
def test_a_pod_that_failed_in_a_container_of_ours_costs_nothing(name: str, code: int) -> None:
    """H16: restartPolicy Never, and the sandbox dies while the gate waits; whatever the times."""
    ended = main_status(name=name, state=terminated(code, finishedAt=BEFORE))
    pod = over("Failed", main_status(state=WAITING), job({"restartPolicy": "Never"}), ended)
    assert (pod.containers.failures, pod.failed) == (0, True)


@pytest.mark.virtual_time
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_under_never_a_rank_whose_sandbox_died_gets_a_new_pod_and_nothing_is_charged(
    phase: str,
) -> None:
    """H16, H18: with backoffLimit 0 the job runs on."""
    async with simulated(job_body({"restartPolicy": "Never"}, backoffLimit=0)) as world:
        await world.running()
        pod = world.cluster.pod("job-1")
        pod.kill(code=0 if phase == "Succeeded" else 143)
        assert pod.phase == phase
        await world.until(lambda: pod.uid not in world.cluster.pods)
        await world.running()
        status = world.cluster.job().status
        assert (status.restarts, status.phase, status.succeeded_ranks) == (0, "Running", "")


RECORDED: Body = json.loads((Path(__file__).parent / "kubelet_1_37.json").read_text())["ends"]
LOST = [name for name in RECORDED if name.startswith("its sandbox died")]


@pytest.mark.parametrize("name", RECORDED)
def test_what_a_kubelet_has_written_of_pods_that_are_over_is_told_apart(name: str) -> None:
    """H16, H18: real pods of 1.37.2 with restartPolicy Never."""
    body = pod_body(0, job({"restartPolicy": "Never"}), **RECORDED[name]["status"])
    pod = read(body)
    costs = pod.containers.failures if pod.containers.sandbox else 0
    assert costs == (1 if name.startswith("it exited") else 0)
    assert pod.containers.succeeded is (name == "it succeeded")
    assert pod.failed is (name != "it succeeded")
    assert pod.containers.sandbox is (name not in LOST)
