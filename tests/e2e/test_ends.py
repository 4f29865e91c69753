"""A pod of real DI-engine ends soon after SIGTERM, runs its `finally` blocks, and prints no
traceback.
"""

import time
from datetime import datetime
from pathlib import Path

import pytest
from asked import asked
from diary import followed
from dijob.core.members import format_count
from identity import Identity, identities
from jobs import REAL_SECONDS, Body, program
from space import MAIN, Space, measured

pytestmark = pytest.mark.e2e

# Alone on a machine, a pod is gone after 2 s. With a worker that waits for its parent, it would
# take the grace period of 30 s. On a busy machine, the runtime may use both of its limits of 5 s
# (STUCK_SECONDS and LEAVE_SECONDS in dijob_runtime/hook/ending.py).
END_SECONDS = 20

SAVES = """
import time
from ding.framework import Parallel

def main():
    node = Parallel().node_id
    print("begun: node %d" % node)
    try:
        while True:
            time.sleep(0.1)
    finally:
        print("saved by node %d" % node)

if __name__ == "__main__":
    try:
        Parallel.runner(n_parallel_workers=WORKERS, topology="mesh")(main)
    finally:
        print("saved by the parent")
"""
DITASK = ["ditask", "--package", ".", "--main", "main.main", "--parallel-workers", "2"]
RUNNER = ["python3", "main.py"]
# The command, the queue, and the workers of each pod.
WAYS = {
    "runner-nng": (RUNNER, "nng", 2),
    "ditask-redis": (DITASK, "redis", 2),
    "runner-torchrpc": (RUNNER, "torchrpc", 2),
    "one-worker": (RUNNER, "nng", 1),
    "ditask-nng": (DITASK, "nng", 2),
    "runner-redis": (RUNNER, "redis", 2),
    "ditask-torchrpc": (DITASK, "torchrpc", 2),
}
LONG = {
    "one-worker",
    "ditask-nng",
    "ditask-redis",
    "runner-redis",
    "ditask-torchrpc",
    "runner-torchrpc",
}


def started(now: dict[str, Identity]) -> float:
    """Return when the last container started (epoch seconds)."""
    return max(map(seconds, (begun for _, _, begun in now.values())))


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def in_place(space: Space, pod: str) -> tuple[str, float]:
    """Return what a rank printed before its in-place restart, and the seconds that its end took."""
    lines = space.kubectl("logs", pod, "--previous", "--timestamps").splitlines()
    told = next(line for line in lines if "the program is stopped and restarted" in line)
    (body,) = (one for one in space.pods("ends") if one["metadata"]["name"] == pod)
    main = next(s for s in body["status"]["containerStatuses"] if s["name"] == MAIN)
    ended = main["lastState"]["terminated"]["finishedAt"]
    return "\n".join(lines), seconds(ended) - seconds(told.split()[0])


def saved(log: str, nodes: range) -> bool:
    return all(f"saved by node {node}" in log for node in nodes)


def until_counted(space: Space, processes: str) -> None:
    """N1: wait until the runtime reports the processes that only the script requests."""

    def missing() -> str:
        code, said = asked(space, "topology", "ends")
        return "" if code == 0 and processes in said else said

    space.until("topology counts all processes", missing, 180)


@pytest.mark.parametrize(
    "way",
    [pytest.param(w, id=w, marks=[pytest.mark.long] if w in LONG else []) for w in WAYS],
)
def test_a_deleted_pod_ends_at_once_and_its_programs_save(
    space: Space, way: str, tmp_path: Path
) -> None:
    """H15: with two workers, it took the full grace period, for the pod and again for the ranks
    that restart in place.
    """
    command, queue, workers = WAYS[way]
    text = SAVES.replace("WORKERS", str(workers))
    spec: Body = {"replicas": 3, "backoffLimit": 0, "messageQueue": {"type": queue}}
    space.apply(*program("ends", command, text, **spec))
    space.until_true("ends", "PeersReady", REAL_SECONDS)
    pods = space.names("ends")
    space.until(
        "all programs have begun",
        lambda: "" if sum(space.logs(pod).count("begun") for pod in pods) == 3 * workers else "no",
        REAL_SECONDS,
    )
    until_counted(space, f"3 ranks x {format_count(workers, 'process', 'processes')})")
    before = identities(space, "ends")
    uid = before["ends-0"][0]
    with followed(space, "ends-0", tmp_path / "log"):
        space.kubectl("delete", "pod", "ends-0", "--wait=false")
        deleted = time.time()
        gone = space.until_gone("ends-0", lambda: sorted({uid} & space.uids("ends")), 40)
    renewed = {"ends-0"} if queue == "redis" else set(pods)

    def missing() -> str:
        now = identities(space, "ends")
        changed = {name for name in before if now.get(name, before[name]) != before[name]}
        return "" if changed == renewed and len(now) == 3 else f"renewed: {sorted(changed)}"

    space.until("all run again", missing, 180)
    healed = started(identities(space, "ends")) - deleted
    measured(f"seconds until all run again, {way}", f"{healed:.1f}")
    log = (tmp_path / "log").read_text()
    assert saved(log, range(workers)), log
    assert ("saved by the parent" in log) == (way == "one-worker")
    others = {pod: in_place(space, pod) for pod in renewed - {"ends-0"}}
    for pod, (text, _) in others.items():
        first = int(pod.removeprefix("ends-")) * workers
        assert saved(text, range(first, first + workers)), text
    assert not any("Traceback" in text for text in (log, *(text for text, _ in others.values())))
    ends = [gone, *(took for _, took in others.values())]
    measured(f"seconds until each rank has ended, {way}", ", ".join(f"{took:.1f}" for took in ends))
    assert max(ends) < END_SECONDS
    assert space.status("ends").get("restarts", 0) == 0
