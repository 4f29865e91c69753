"""Losses that nobody is to blame for, and jobs that are deleted: the set gets whole again, or goes whole."""

import pytest
from diary import kept
from jobs import peers
from sockets import mesh, until_edges
from space import Space, measured, without_operator

pytestmark = pytest.mark.e2e

PORTS = (50515, 50516)


def uids(space: Space, job: str) -> set[str]:
    """Of the job's pods, without those that are being deleted."""
    return {pod["metadata"]["uid"] for pod in space.pods(job) if "deletionTimestamp" not in pod["metadata"]}


def test_a_pod_deleted_by_hand_comes_back_with_all_its_connections(space: Space) -> None:
    space.apply(peers("world", "--forever", replicas=3, parallelWorkers=2, backoffLimit=0))
    space.until_true("world", "Running")
    before = uids(space, "world")
    with kept(space, "dijobs") as diary:
        space.kubectl("delete", "pod", "world-1", "--wait=false")
        waited = space.until("a new set of three runs", lambda: not_whole(space, before), 60)
    until_edges(space, "world", mesh(space.ips("world"), 2), PORTS)
    measured("seconds from a pod's deletion to a whole set", f"{waited:.1f}")
    status = space.status("world")
    assert status.get("restarts", 0) == 0
    assert status.get("firstFailure") is None
    assert status["epoch"] == 2
    assert status["lastRenewal"]["message"].startswith("rank 1: ")
    said = [c for _, _, body in diary.entries for c in body["status"]["conditions"] if c["status"] == "False"]
    renewing = [c["message"] for c in said if c["type"] == "AddressesReady"]
    assert any(message.startswith("rank 1: ") for message in renewing), said
    assert "Warning" in space.kubectl("get", "events", "--field-selector=involvedObject.name=world")


def not_whole(space: Space, before: set[str]) -> str:
    """Why the job does not run on three pods of which none was there before; "" when it does."""
    now = uids(space, "world")
    running = space.condition("world", "Running").get("status") == "True"
    return "" if running and len(now) == 3 and not now & before else f"running {running}, {len(now & before)} old pods"


def test_everything_goes_with_the_job(space: Space) -> None:
    space.apply(peers("world", "--forever", replicas=3))
    space.until_true("world", "Running")
    space.until("the service is there", lambda: "" if len(space.children()) == 4 else str(space.children()), 15)
    space.kubectl("delete", "dijob", "world")
    measured("seconds from a job's deletion to its last child's", f"{space.until_gone('all', space.children, 15):.1f}")


def test_everything_goes_with_the_job_while_there_is_no_operator(space: Space) -> None:
    space.apply(peers("world", "--forever", replicas=3))
    space.until_true("world", "Running")
    space.until("the service is there", lambda: "" if len(space.children()) == 4 else str(space.children()), 15)
    with without_operator(space.cluster):
        space.kubectl("delete", "dijob", "world")
        seconds = space.until_gone("all", space.children, 15)
    measured("the same without an operator", f"{seconds:.1f}")


def test_a_job_deleted_and_applied_at_once_runs(space: Space) -> None:
    manifest = peers("again", "--forever", replicas=3)
    space.apply(manifest)
    space.until_true("again", "Running")
    first, before = space.job("again")["metadata"]["uid"], uids(space, "again")
    space.kubectl("delete", "dijob", "again", "--wait=false")
    space.apply(manifest)
    assert space.job("again")["metadata"]["uid"] != first
    waited = space.until_true("again", "Running")
    measured("seconds from delete and apply at once to Running", f"{waited:.1f}")
    assert len(uids(space, "again") - before) == 3
    assert space.status("again").get("restarts", 0) == 0
    until_edges(space, "again", mesh(space.ips("again"), 1), PORTS[:1])
