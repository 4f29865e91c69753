"""Fixtures: one control plane and one operator for all tests of this folder, and a healthy job that
must not change.
"""

from collections.abc import Iterator

import pytest
from apiserver.plane import Plane, job, operator
from planes import control_plane
from ports import free_port
from workers import own

# Two test files run at a time (make apiserver), each with its own control plane.
NAME = own("apiserver-tests")
HEALTHY = "healthy"


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    log = tmp_path_factory.mktemp("operator") / "log"
    port = free_port()
    flags = ("--job-metrics",)
    with (
        control_plane(NAME, nodes=3) as cluster,
        operator(cluster.kubeconfig, log, port=port, flags=flags),
    ):
        yield Plane(cluster, log, port)


@pytest.fixture(scope="session")
def running(plane: Plane) -> str:
    """Return the name of a running job."""
    plane.apply(job(HEALTHY))
    plane.until_condition(HEALTHY, "Running", "True", seconds=60)
    plane.until("the Service is there", lambda: plane.get("service", HEALTHY), lambda: None)
    plane.until(
        "its status is complete", lambda: _settled(plane), lambda: plane.get("dijob", HEALTHY)
    )
    return HEALTHY


def _settled(plane: Plane) -> bool:
    """Return whether the status is up to date. Counts are written up to a second later."""
    body = plane.get("dijob", HEALTHY) or {"metadata": {}, "status": {}}
    status, pods = body["status"], plane.pods(HEALTHY)
    ready = [
        name
        for name, pod in pods.items()
        if any(c["ready"] for c in pod["status"]["containerStatuses"])
    ]
    counted = (
        (status.get("replicas"), status.get("readyReplicas")) == (len(pods), len(ready)) == (2, 2)
    )
    return counted and status.get("observedGeneration") == body["metadata"]["generation"]


def _versions(plane: Plane, name: str) -> dict[str, str]:
    objects = [plane.get("dijob", name), plane.get("service", name), *plane.pods(name).values()]
    return {f"{o['kind']}/{o['metadata']['name']}": _version(o["metadata"]) for o in objects if o}


def _version(meta: dict[str, str]) -> str:
    return f"{meta['uid']} at {meta['resourceVersion']}"


@pytest.fixture
def untouched(plane: Plane, running: str) -> Iterator[str]:
    """Yield the name of the healthy job. At the end, the job and its children must have the same
    resourceVersions as before.
    """
    before = _versions(plane, running)
    assert len(before) == 4, f"a job, a Service and two pods: {before}"
    yield running
    assert _versions(plane, running) == before
