"""C3: terminations of containers that always restart (sidecars) do not count as failures of their
rank. Its program keeps running, and the kubelet also restarts them on purpose.
"""

from typing import Any

import pytest
from dijob import names
from dijob.core.observed import containers
from samples.builders import STARTED, Body, container, job, pod_body, read
from samples.statuses import main_status, terminated

UP: Body = {"state": {"running": {"startedAt": STARTED}}}
TOKEN = {"initContainers": [{"name": "token", "image": "x", "restartPolicy": "Always"}]}


@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
@pytest.mark.parametrize(
    "sidecar",
    [
        pytest.param(main_status(4, "token", **UP, lastState=terminated(0)), id="clean ends"),
        pytest.param(main_status(4, "token", **UP, lastState=terminated(143)), id="was resized"),
        pytest.param(main_status(4, "token", state=terminated(1)), id="has crashed"),
    ],
)
def test_ends_of_a_native_sidecar_do_not_count(policy: str, sidecar: Body) -> None:
    owner = job({**TOKEN, "restartPolicy": policy})
    shown = pod_body(
        0,
        owner,
        phase="Running",
        containerStatuses=[main_status(**UP)],
        initContainerStatuses=[sidecar],
    )
    assert read(shown).containers.failures == 0


SYNC: Body = {"name": "sync", "restartPolicy": "Always"}


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("policy", ["OnFailure", "Never"])
def test_a_regular_container_that_always_restarts_is_a_sidecar_too(policy: str, code: int) -> None:
    """Kubernetes 1.35 allows this for any container (KEP-5307), and a webhook may inject one."""
    spec: dict[str, Any] = {
        "restartPolicy": policy,
        "containers": [{"name": names.MAIN_CONTAINER}, SYNC],
    }
    main, sync = main_status(**UP), main_status(4, "sync", state=terminated(code))
    shown = {"phase": "Running", "containerStatuses": [main, sync]}
    assert containers.count_failures(spec, shown, main) == 0


def test_a_crash_of_the_program_counts_in_a_pod_with_sidecars() -> None:
    spec = {"restartPolicy": "OnFailure", "containers": [container(), SYNC]}
    main = main_status(2, **UP, lastState=terminated(1))
    shown = {
        "phase": "Running",
        "containerStatuses": [main, main_status(4, "sync", **UP, lastState=terminated(0))],
    }
    assert containers.count_failures(spec, shown, main) == 2
