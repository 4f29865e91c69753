"""What the ends of containers that always start again (restartPolicy: Always, sidecars) cost: one
for each bad end that is seen, and nothing for the clean ones, which restartCount counts too.
"""

from typing import Any

import pytest
from dijob import names
from dijob.api.model import DIJob
from dijob.core.observed import containers, parse
from dijob.core.observed.views import Observed
from unit.builders import (
    NOW,
    STARTED,
    Body,
    changed,
    container,
    job,
    later,
    listed,
    observed,
    plan,
    pod_body,
    stored,
)
from unit.statuses import main_status, terminated

UP: Body = {"state": {"running": {"startedAt": STARTED}}}
TOKEN = {"initContainers": [{"name": "token", "image": "x", "restartPolicy": "Always"}]}


def token(restarts: int, code: int, *, down: bool) -> Body:
    """The sidecar after so many restarts, whose last end had this code."""
    if down:
        return main_status(restarts, "token", state=terminated(code))
    return main_status(restarts, "token", **UP, lastState=terminated(code))


def seen(owner: DIJob, sidecar: Body) -> Observed:
    """Three ranks that run; rank 1 with this sidecar."""
    body = pod_body(
        1,
        owner,
        phase="Running",
        containerStatuses=[main_status(**UP)],
        initContainerStatuses=[sidecar],
    )
    shown = parse.pod(body)
    rank = changed(
        listed(1, owner),
        failures=shown.containers.failures,
        init_failures=shown.containers.init_failures,
        sidecars=shown.made.sidecars,
    )
    return observed(listed(0, owner), rank, listed(2, owner))


@pytest.mark.parametrize(
    ("shown", "charged"),
    [
        pytest.param([token(20, 0, down=False)], 0, id="clean ends alone"),
        pytest.param([token(20, 0, down=True)], 0, id="a clean end now"),
        pytest.param([token(20, 1, down=True)], 1, id="one bad end after 20 clean ones"),
        pytest.param(
            [token(20, 1, down=True), token(21, 1, down=False), token(24, 0, down=True)],
            1,
            id="and clean ones after it",
        ),
        pytest.param(
            [token(20, 1, down=True), token(20, 1, down=True)], 1, id="the same one, seen twice"
        ),
        pytest.param(
            [token(number, 1, down=True) for number in (20, 21, 25)], 3, id="each that is seen"
        ),
    ],
)
def test_each_bad_end_of_a_sidecar_is_charged_once_and_clean_ones_never(
    shown: list[Body], charged: int
) -> None:
    owner = job(TOKEN, backoffLimit=3)
    owner = stored(owner, plan(owner, observed(*(listed(r, owner) for r in range(3))), NOW))
    for number, sidecar in enumerate(shown):
        owner = stored(owner, plan(owner, seen(owner, sidecar), later(10 + number)))
    assert (owner.status.restarts, owner.status.phase) == (charged, "Running")


SYNC: Body = {"name": "sync", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("policy", "status", "failures"),
    [
        pytest.param(
            "OnFailure", main_status(4, "sync", **UP, lastState=terminated(0)), 0, id="clean ends"
        ),
        pytest.param("Never", main_status(0, "sync", state=terminated(1)), 0, id="under Never"),
    ],
)
def test_a_container_of_the_pod_itself_that_always_starts_again_is_a_sidecar_too(
    policy: str, status: Body, failures: int
) -> None:
    """Kubernetes 1.35 lets any container say so (KEP-5307); who injects one may."""
    spec: dict[str, Any] = {
        "restartPolicy": policy,
        "containers": [{"name": names.MAIN_CONTAINER}, SYNC],
    }
    main = main_status(**UP)
    shown = {"phase": "Running", "containerStatuses": [main, status]}
    assert containers.failures(spec, shown, main) == failures


def test_a_crash_of_the_program_is_counted_beside_one_that_always_starts_again() -> None:
    spec = {"restartPolicy": "OnFailure", "containers": [container(), SYNC]}
    main = main_status(2, **UP, lastState=terminated(1))
    shown = {
        "phase": "Running",
        "containerStatuses": [main, main_status(4, "sync", **UP, lastState=terminated(0))],
    }
    assert containers.failures(spec, shown, main) == 2
