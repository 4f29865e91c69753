"""Delayed or overlapping re-rendezvous: the job recovers, and no failure counts twice."""

import json

import pytest
from asked import asked
from diary import kept
from identity import how, identities, kill_program, running, until_healed
from jobs import shell
from sockets import mesh, until_edges
from space import Space

pytestmark = pytest.mark.e2e

PORTS = (50515,)


def test_a_rank_is_lost_while_one_that_dials_it_restarts(space: Space) -> None:
    before = running(space, replicas=4, backoffLimit=1)
    kill_program(space, "world-3")
    space.kubectl("delete", "pod", "world-2", "--wait=false")
    until_healed(space, "world", before, {"world-2", "world-3"}, 2)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert space.status("world").get("restarts", 0) <= 1


def test_a_program_that_does_not_end_is_killed_and_restarted(space: Space) -> None:
    deaf = "trap '' TERM; light-peer --forever & while :; do wait; done"
    job = shell("world", deaf, replicas=2, backoffLimit=0, pod={"terminationGracePeriodSeconds": 3})
    space.apply(job)
    space.until_true("world", "PeersReady")
    before = identities(space, "world")
    space.kubectl("delete", "pod", "world-0", "--wait=false")
    until_healed(space, "world", before, {"world-0", "world-1"}, 2)
    assert how(space, before) == {"world-0": "re-created", "world-1": "in place"}
    assert space.status("world").get("restarts", 0) == 0


def test_a_program_that_saves_a_checkpoint_has_its_own_grace_period_for_it(space: Space) -> None:
    """The program takes longer than usual to end, and writes its own termination message."""
    save = (
        'save() { [ "$DI_RANK" = 0 ] || sleep 25; echo "saved at step 7" >/dev/termination-log;'
        " exit 3; }"
    )
    script = f"{save}; trap save TERM; light-peer --forever & while :; do wait; done"
    space.apply(
        shell(
            "world", script, replicas=2, backoffLimit=0, pod={"terminationGracePeriodSeconds": 90}
        )
    )
    space.until_true("world", "PeersReady")
    before = identities(space, "world")
    with kept(space, "dijobs") as diary:
        space.kubectl("delete", "pod", "world-0", "--wait=false")
        until_healed(space, "world", before, {"world-0", "world-1"}, 2)
    assert how(space, before) == {"world-0": "re-created", "world-1": "in place"}
    assert space.status("world").get("restarts", 0) == 0
    said = [
        c
        for _, _, body in diary.entries
        for c in body["status"]["conditions"]
        if c["type"] == "PeersReady"
    ]
    assert any("rank 1: its program has up to 90 s to exit" in c["message"] for c in said), said


def test_with_restart_scope_job_all_ranks_restart(space: Space) -> None:
    before = running(space, replicas=3, restart={"scope": "Job"})
    space.kubectl("delete", "pod", "world-2", "--wait=false")
    until_healed(space, "world", before, set(before), 2)


def test_a_rank_lost_during_a_re_rendezvous_counts_no_failure_twice(space: Space) -> None:
    before = running(space, replicas=4)
    space.kubectl("delete", "pod", "world-3", "world-2", "--wait=false")
    until_healed(space, "world", before, {"world-2", "world-3"}, 2)
    until_edges(space, "world", mesh(space.ips("world"), 1), PORTS)
    assert space.status("world").get("restarts", 0) == 0
    check_report(space)


def check_report(space: Space) -> None:
    """The report of a job that has recovered names the ranks that it had lost, and the seconds add
    up to its age.
    """
    created = space.job("world")["metadata"]["creationTimestamp"]
    before = space.seconds_since(created)
    code, said = asked(space, "report", "world", "-o", "json")
    after = space.seconds_since(created)
    assert code == 0, said
    report = json.loads(said)
    seconds = {part["label"]: part["seconds"] for part in report["parts"]}
    assert report["activity"] == "Running"
    assert sum(seconds.values()) == report["totalSeconds"]
    assert before - 1 <= report["totalSeconds"] <= after + 1
    assert seconds["running"] > 0
    assert seconds["starting"] > 0
    lost = [part for part in report["parts"] if part["kind"] == "lost"]
    assert [part["label"] for part in lost] == ["lost ranks 2-3"]
    assert lost[0]["seconds"] > 0
    kept = {rank["rank"] for rank in report["ranks"] if len(rank["parts"]) < len(report["parts"])}
    assert kept == {0, 1}, "these ranks kept running"
    assert "lost ranks 2-3 at" in report["sentence"]
