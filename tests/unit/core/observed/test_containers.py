"""Whether all containers of a pod have ended permanently, although the pod's phase does not show
that yet.
"""

from typing import Any

import pytest
from dijob.core.observed import parse
from samples.builders import pod_body
from samples.statuses import main_status, terminated

RUNNING: dict[str, Any] = {"running": {}}
DONE, FAILED = terminated(0), terminated(1)


@pytest.mark.parametrize(
    ("policy", "states", "finished"),
    [
        ("OnFailure", [DONE], True),
        ("OnFailure", [FAILED], False),
        ("OnFailure", [DONE, RUNNING], False),
        ("OnFailure", [DONE, FAILED], False),
        ("OnFailure", [], False),
        ("Never", [DONE], True),
        ("Never", [DONE, FAILED], True),
        ("Never", [FAILED, RUNNING], False),
    ],
)
def test_a_pod_is_finished_once_no_container_will_run_again(
    policy: str, states: list[dict[str, Any]], finished: bool
) -> None:
    """The kubelet reports the last container's end and the pod's phase in two updates, a second
    apart.
    """
    statuses = [
        main_status(name=name, state=state)
        for name, state in zip(("di-container", "side"), states, strict=False)
    ]
    body = pod_body(phase="Running", containerStatuses=statuses)
    body["spec"]["restartPolicy"] = policy
    assert parse.parse_pod(body).finished is finished
