"""How long a job's programs wait for the peer list when everything else is ready: the cost of every
start.
"""

from statistics import median

import pytest
from diary import Diary, has_gate, kept
from jobs import shell
from space import JOB_LABEL, Space, measured

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long]

RANKS, REPETITIONS, BOUND = 4, 5, 2.5


def test_from_the_last_gate_to_the_last_program(space: Space) -> None:
    with kept(space, "pods") as diary:
        seconds = [one_start(space, diary, f"start-{number}") for number in range(REPETITIONS)]
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    measured(
        f"seconds from the start of the last of {RANKS} gates to the last program's",
        f"min {min(seconds):.2f}, median {median(seconds):.2f}, max {max(seconds):.2f} ({shown})",
    )
    assert median(seconds) < BOUND, shown


def one_start(space: Space, diary: Diary, name: str) -> float:
    """Run a job. Return the seconds from the watch event of the last gate to the last `date` in a
    program.
    """
    space.apply(shell(name, "date +%s.%N; exec sleep 3600", replicas=RANKS))
    space.until_true(name, "Running")
    pods = [f"{name}-{rank}" for rank in range(RANKS)]

    def silent() -> str:
        return " ".join(pod for pod in pods if not space.printed(pod))

    space.until("all have begun", silent, 30)
    begun = [float(space.printed(pod).splitlines()[0]) for pod in pods]
    waited = [gate_seen(diary, pod) for pod in pods]
    space.kubectl("delete", "dijob", name)
    space.until_gone(name, space.children, 60)
    return max(begun) - max(waited)


def gate_seen(diary: Diary, pod: str) -> float:
    """Return when the pod's gate was first seen. The diary must have the pod without it before."""
    seen = [(at, body) for at, _, body in list(diary.entries) if body["metadata"]["name"] == pod]
    assert seen
    assert JOB_LABEL in seen[0][1]["metadata"]["labels"]
    assert not has_gate(seen[0][1]), "the watch came too late to time this"
    return next(at for at, body in seen if has_gate(body))
