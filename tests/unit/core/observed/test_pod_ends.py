"""Which ends in a pod's status count as failures, successes or disruptions, and which end
is named.
"""

import pytest
from dijob import names
from dijob.core.observed import containers
from dijob.core.observed.endings import ContainerEnding
from samples.builders import Body, container, job, pod_body, read
from samples.statuses import RUNNING, condition, looping, main_status, terminated

TWO = {"containers": [container(), {"name": "side", "image": "s"}]}


CLUSTERS_REASONS = (
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TaintToleration",
    "NodeShutdown",
    "Terminated",
)


# Counted are restarts, and an end that no start has followed yet. The gate never counts.
# Disruptions are included here, and the ledger excludes them.
FAILURES: dict[str, tuple[Body, int]] = {
    "nothing yet": ({}, 0),
    "runs": ({"containerStatuses": [main_status(state=RUNNING)]}, 0),
    "runs again": (
        {"containerStatuses": [main_status(2, state=RUNNING, lastState=terminated(1))]},
        2,
    ),
    "down": ({"containerStatuses": [main_status(2, state=terminated(1))]}, 3),
    "crash loop": ({"containerStatuses": [looping(1)]}, 2),
    "waits before its first start": (
        {"containerStatuses": [main_status(state={"waiting": {}})]},
        0,
    ),
    "exited 0": ({"containerStatuses": [main_status(state=terminated(0))]}, 0),
    "exited 0 after restarts": ({"containerStatuses": [main_status(2, state=terminated(0))]}, 2),
    "sidecar down": (
        {
            "containerStatuses": [
                main_status(state=RUNNING),
                main_status(name="side", state=terminated(1)),
            ]
        },
        1,
    ),
    "sidecar crashes after the main container's success": (
        {
            "containerStatuses": [
                main_status(1, state=terminated(0)),
                {**looping(1, 5), "name": "side"},
            ]
        },
        1,
    ),
    "init container fails": ({"initContainerStatuses": [{**looping(1), "name": "init"}]}, 2),
    "init container ran again": (
        {"initContainerStatuses": [main_status(1, "init", state=terminated(0))]},
        0,
    ),
    "gate restarted": (
        {"initContainerStatuses": [{**looping(1), "name": names.GATE_CONTAINER}]},
        0,
    ),
    "failed without a reason": ({"phase": "Failed"}, 1),
    "failed and down": (
        {"phase": "Failed", "containerStatuses": [main_status(state=terminated(1))]},
        1,
    ),
}


@pytest.mark.parametrize(("status", "count"), FAILURES.values(), ids=FAILURES)
def test_each_failure_is_counted_once(status: Body, count: int) -> None:
    assert read(pod_body(**status)).containers.failures == count


SUCCEEDED: dict[str, tuple[Body, bool]] = {
    "runs": ({"containerStatuses": [main_status(state=RUNNING)]}, False),
    "main exited 0, sidecar runs": (
        {
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=RUNNING),
            ]
        },
        True,
    ),
    "sidecar exited 0, main runs": (
        {
            "containerStatuses": [
                main_status(state=RUNNING),
                main_status(name="side", state=terminated(0)),
            ]
        },
        False,
    ),
    "by its phase": ({"phase": "Succeeded"}, True),
    "exited 1": ({"containerStatuses": [main_status(state=terminated(1))]}, False),
    "exited 0 because it was evicted": (
        {
            "containerStatuses": [main_status(state=terminated(0))],
            "conditions": [condition("DisruptionTarget")],
        },
        False,
    ),
    "sidecar failed the pod": (
        {
            "phase": "Failed",
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=terminated(1)),
            ],
        },
        True,
    ),
}


@pytest.mark.parametrize(("status", "succeeded"), SUCCEEDED.values(), ids=SUCCEEDED)
def test_a_rank_succeeds_when_its_main_container_exits_0_by_itself(
    status: Body, succeeded: bool
) -> None:
    found = read(pod_body(owner=job(TWO), **status))
    assert found.containers.succeeded is succeeded
    assert not (found.containers.succeeded and found.failed)


def test_an_exit_0_on_request_is_not_a_success() -> None:
    body = pod_body(containerStatuses=[main_status(state=terminated(0))])
    body["metadata"]["deletionTimestamp"] = "2026-05-04T12:00:00Z"
    assert (read(body).containers.succeeded, read(body).deleting) == (False, True)


@pytest.mark.parametrize(
    ("status", "disrupted"),
    [
        ({"conditions": [condition("DisruptionTarget")]}, True),
        ({"conditions": [condition("DisruptionTarget", "False")]}, False),
        *(({"phase": "Failed", "reason": reason}, True) for reason in CLUSTERS_REASONS),
        ({"phase": "Failed", "reason": "Evicted"}, False),
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, False),
        ({"phase": "Failed"}, False),
    ],
    ids=lambda value: str(value)[:60],
)
def test_disruptions_are_distinguished_from_failures(status: Body, disrupted: bool) -> None:
    assert read(pod_body(**status)).placement.disrupted is disrupted


@pytest.mark.parametrize(
    ("policy", "code", "failed"),
    [("Never", 1, True), ("Never", 0, False), ("OnFailure", 1, False)],
    ids=["never", "never-and-well", "on-failure"],
)
def test_under_never_a_sidecar_does_not_hide_that_the_main_container_failed(
    policy: str, code: int, failed: bool
) -> None:
    statuses = [main_status(state=terminated(code)), main_status(name="side", state=RUNNING)]
    owner = job({**TWO, "restartPolicy": policy})
    assert read(pod_body(owner=owner, phase="Running", containerStatuses=statuses)).failed is failed


ENDINGS: dict[str, tuple[Body, ContainerEnding | None]] = {
    "none": ({"containerStatuses": [main_status(state=RUNNING)]}, None),
    "main": (
        {"containerStatuses": [main_status(state=terminated(3, message=" so \n"))]},
        ContainerEnding(3, 0, "Error", "so"),
    ),
    "main, before this start": (
        {"containerStatuses": [main_status(1, state=RUNNING, lastState=terminated(1))]},
        ContainerEnding(1, 0, "Error", "", runs_again=True),
    ),
    "signal": (
        {"containerStatuses": [main_status(state=terminated(137))]},
        ContainerEnding(137, 9, "Error", ""),
    ),
    "a named signal": (
        {"containerStatuses": [main_status(state=terminated(1, signal=15))]},
        ContainerEnding(1, 15, "Error", ""),
    ),
    "no signal": (
        {"containerStatuses": [main_status(state=terminated(255))]},
        ContainerEnding(255, 0, "Error", ""),
    ),
    "an init container": (
        {
            "initContainerStatuses": [
                main_status(1, "init", state={"waiting": {}}, lastState=terminated(7))
            ],
            "containerStatuses": [main_status(state={"waiting": {}})],
        },
        ContainerEnding(7, 0, "Error", "", container="init"),
    ),
    "a sidecar, the main container having ended well": (
        {
            "containerStatuses": [
                main_status(state=terminated(0)),
                main_status(name="side", state=terminated(4)),
            ]
        },
        ContainerEnding(4, 0, "Error", "", container="side"),
    ),
}


@pytest.mark.parametrize(("status", "ending"), ENDINGS.values(), ids=ENDINGS)
def test_the_reported_end_is_that_of_the_failed_container(
    status: Body, ending: ContainerEnding | None
) -> None:
    assert read(pod_body(**status)).containers.last_end == ending


SAID: dict[str, tuple[int, str, int]] = {
    "the launcher": (85, "dijob: renewal, list 7\n", 7),
    "a program that ends with 85": (85, "out of luck", 0),
    "a program that writes the message": (1, "dijob: renewal, list 7\n", 0),
    "nonsense": (85, "dijob: renewal, list x", 0),
    "more digits than a revision has": (85, "dijob: renewal, list " + 16 * "9", 0),
    "an end without a message": (85, "", 0),
}


@pytest.mark.parametrize(("code", "message", "number"), SAID.values(), ids=SAID)
def test_which_ends_are_requested_restarts(code: int, message: str, number: int) -> None:
    ended = terminated(code, message=message)
    assert containers.renewal_of(main_status(state=ended)) == number
    assert containers.renewal_of(main_status(1, state={"running": {}}, lastState=ended)) == number
