"""How a status shows that a pod's sandbox has died under it, and which of its addresses is the
pod's.
"""

import pytest
from unit.builders import pod_body, read
from unit.statuses import condition, main_status, terminated


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
