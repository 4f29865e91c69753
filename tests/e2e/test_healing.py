"""Losses and deletions: a job recovers completely, or is deleted completely."""

import time
from collections.abc import Iterator
from statistics import median

import pytest
from diary import kept
from identity import begun, how, identities, kill_program, running, until_healed
from jobs import peers
from sockets import mesh, star, until_edges
from space import Space, measured, without_operator

pytestmark = pytest.mark.e2e

PORTS = (50515, 50516)
# Each key says how the ranks that dial the lost rank are restarted. Alone on a machine, an in-place
# restart takes 4 to 5 s; here, pods of another test file run at the same time.
START_SECONDS = {"in place": 9.0, "re-created": 20.0}
# Less than the grace period of 30 s, which a pod would use if nothing told its program to end.
CHILDREN_SECONDS = 25


@pytest.fixture(scope="module")
def figures() -> Iterator[dict[str, list[float]]]:
    """Collect the seconds from a loss to the last restart, by how the ranks that dial the lost rank
    are restarted.
    """
    found: dict[str, list[float]] = {}
    yield found
    for way, seconds in found.items():
        shown = ", ".join(f"{value:.2f}" for value in seconds)
        measured(
            f"seconds from a loss to the last renewed start, {way}",
            f"median {median(seconds):.2f} ({shown})",
        )
        assert median(seconds) < START_SECONDS[way], shown


def timed(space: Space, loss: str, fault: float, pods: set[str]) -> float:
    """Print how long the restart of these pods took. Return the seconds from the fault (epoch
    seconds) to the last start.
    """
    started, whole = (at - fault for at in begun(space, pods))
    measured(
        f"seconds from {loss} to the last renewed start, to all its edges",
        f"{started:.2f}, {whole:.2f}",
    )
    return started


# (topology, ranks, the rank that is deleted, the ranks that dial it, the launcher)
LOSSES: dict[str, tuple[str, int, int, set[int], str]] = {
    "mesh-2-of-4": ("mesh", 4, 2, {3}, "Auto"),
    "mesh-highest": ("mesh", 4, 3, set(), "Auto"),
    "mesh-first": ("mesh", 3, 0, {1, 2}, "Auto"),
    "star-leaf": ("star", 4, 2, set(), "Auto"),
    "star-hub": ("star", 3, 0, {1, 2}, "Auto"),
    "mesh-2-of-4-without-the-launcher": ("mesh", 4, 2, {3}, "Off"),
}
LONG = {"mesh-highest", "mesh-first", "star-leaf"}


@pytest.mark.parametrize(
    "loss",
    [
        pytest.param(loss, id=name, marks=[pytest.mark.long] if name in LONG else [])
        for name, loss in LOSSES.items()
    ],
)
def test_a_deleted_pod_is_replaced_and_only_ranks_that_dial_it_restart(
    space: Space, figures: dict[str, list[float]], loss: tuple[str, int, int, set[int], str]
) -> None:
    topology, size, victim, dialers, launcher = loss
    before = running(space, replicas=size, topology=topology, launcher=launcher)
    name, others = f"world-{victim}", {f"world-{rank}" for rank in dialers}
    with kept(space, "dijobs") as diary:
        # The watch begins with the job as it is.
        space.until("the watch has begun", lambda: "" if diary.entries else "no event", 60)
        space.kubectl("delete", "pod", name, "--wait=false")
        fault = time.time()
        until_healed(space, "world", before, {name, *others}, 2)
    in_place = "in place" if launcher == "Auto" else "re-created"
    assert how(space, before) == {name: "re-created"} | dict.fromkeys(others, in_place)
    ips = space.ips("world")
    until_edges(space, "world", mesh(ips, 1) if topology == "mesh" else star(ips), PORTS[:1])
    started = timed(
        space,
        f"the deletion of rank {victim} of {size} ({topology}, {launcher})",
        fault,
        {name, *others},
    )
    if launcher == "Auto":  # without it, the gate takes three more seconds
        figures.setdefault("in place", []).append(started)
    status = space.status("world")
    assert status.get("restarts", 0) == 0
    assert status.get("firstFailure") is None
    assert status["lastRenewal"]["message"].startswith(f"rank {victim}: ")
    said = [
        c
        for _, _, body in diary.entries
        for c in body["status"]["conditions"]
        if c["status"] == "False"
    ]
    assert any(
        c["type"] == "PeersReady" and c["message"].startswith(f"rank {victim}: ") for c in said
    ), said
    # If some ranks keep running, so does the job.
    stopped = [c for c in said if c["type"] == "Running"]
    assert bool(stopped) == (len(dialers) + 1 == size), stopped
    assert "Warning" in space.kubectl("get", "events", "--field-selector=involvedObject.name=world")


def test_a_rank_that_restarted_in_place_recently_is_recreated(
    space: Space, figures: dict[str, list[float]]
) -> None:
    """With another in-place restart, the kubelet's back-off would delay the third start."""
    ranks = {"world-1", "world-2"}
    before = running(space, replicas=3)
    for number, ways in ((2, {"re-created", "in place"}), (3, {"re-created"})):
        space.kubectl("delete", "pod", "world-1", "--wait=false")
        fault = time.time()
        until_healed(space, "world", before, ranks, number)
        assert set(how(space, before).values()) == ways, number
        until_edges(space, "world", mesh(space.ips("world"), 1), PORTS[:1])
        way = "in place" if "in place" in ways else "re-created"
        figures.setdefault(way, []).append(timed(space, f"a deletion, {way}", fault, ranks))
        before = identities(space, "world")
    assert space.status("world").get("restarts", 0) == 0


def test_a_killed_process_restarts_in_place_and_affects_no_other_rank(space: Space) -> None:
    space.apply(peers("world", "--forever", replicas=3))
    space.until_true("world", "PeersReady")
    before = identities(space, "world")
    kill_program(space, "world-1")

    def problem() -> str:
        now = identities(space, "world")
        changed = {name: now.get(name) for name in before if now.get(name) != before[name]}
        uid, restarts, _ = changed.get("world-1") or ("", 0, "")
        return "" if (uid, restarts, len(changed)) == (before["world-1"][0], 1, 1) else str(changed)

    waited = space.until("world-1 runs again", problem, 120)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS[:1])
    measured("seconds from SIGKILL of a process to its next start", f"{waited:.1f}")
    status = space.status("world")
    assert (status["restarts"], status["listNumber"]) == (1, 1)
    assert status["firstFailure"]["signal"] == 9


def with_service(space: Space) -> None:
    """Start a job of three ranks with a Service."""
    running(space, replicas=3, service="Always")
    there = space.children
    space.until("its service", lambda: "" if len(there()) == 4 else str(there()), 60)


def test_all_children_are_deleted_with_the_job(space: Space) -> None:
    with_service(space)
    space.kubectl("delete", "dijob", "world")
    measured(
        "seconds from a job's deletion to its last child's",
        f"{space.until_gone('all', space.children, CHILDREN_SECONDS):.1f}",
    )


def test_all_children_are_deleted_without_an_operator(space: Space) -> None:
    with_service(space)
    with without_operator(space.cluster):
        space.kubectl("delete", "dijob", "world")
        seconds = space.until_gone("all", space.children, CHILDREN_SECONDS)
    measured("the same without an operator", f"{seconds:.1f}")


def test_a_job_deleted_and_applied_at_once_runs(space: Space) -> None:
    manifest = peers("again", "--forever", replicas=3)
    space.apply(manifest)
    space.until_true("again", "Running")
    first, before = space.job("again")["metadata"]["uid"], identities(space, "again")
    space.kubectl("delete", "dijob", "again", "--wait=false")
    space.apply(manifest)
    assert space.job("again")["metadata"]["uid"] != first
    waited = space.until_true("again", "Running")
    measured("seconds from delete and apply at once to Running", f"{waited:.1f}")
    now = identities(space, "again")
    assert len({uid for uid, *_ in now.values()} - {uid for uid, *_ in before.values()}) == 3
    assert space.status("again").get("restarts", 0) == 0
    until_edges(space, "again", mesh(space.ips("again"), 1), PORTS[:1])
