"""A job that is almost as large as etcd allows: its status cannot be stored."""

import json

import pytest
from apiserver.plane import Plane, changed, job
from apiserver.rows import CONTAINER

pytestmark = pytest.mark.apiserver

NAME = "too-large"
# etcd stores 1.5 MiB, with what the apiserver adds to an object. A status has at least 500 bytes.
ETCD_BYTES = 3 * 2**19
STEP = 200


def stored(plane: Plane) -> bool:
    """Create the largest job that the apiserver stores."""
    for less in range(STEP, 20 * STEP, STEP):
        args = ["x" * 115_000] * 13
        size = len(json.dumps(changed(job(NAME), f"{CONTAINER}.args", args), separators=(",", ":")))
        args.append("x" * (ETCD_BYTES - less - size))
        said = plane.ask(
            "create", "-f", "-", stdin=json.dumps(changed(job(NAME), f"{CONTAINER}.args", args))
        )
        if said.ok:
            return True
        assert "too large" in said.text, said.text[-500:]
    return False


def test_a_job_that_is_too_large_for_a_status_gets_an_event_and_no_pods(
    plane: Plane, untouched: str
) -> None:
    def event() -> str:
        about = f"reason=TooLarge,involvedObject.name={NAME}"
        return plane.kubectl("get", "events", f"--field-selector={about}", "-o", "wide")

    before = len(plane.log.read_text())
    try:
        assert stored(plane)
        plane.until("there is an event", lambda: "ConfigMap" in event(), event)
        assert plane.pods(NAME) == {}
        assert "Traceback" not in plane.log.read_text()[before:]
    finally:
        plane.remove(f"dijob/{NAME}")
