"""How long DI-engine's own DQN takes on four pods. Its first events are not lost, so it waits for
no timeout.
"""

from statistics import median

import pytest
from jobs import EXAMPLES, REAL_SECONDS
from space import Space, measured

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long]

JOB, RUNS, BOUND = "cartpole-dqn", 5, 40.0


def test_a_dqn_from_all_running_to_its_success(space: Space) -> None:
    seconds = [one_run(space) for _ in range(RUNS)]
    shown = ", ".join(f"{value:.1f}" for value in seconds)
    measured(f"seconds from all Running to Succeeded, {JOB}, {RUNS} runs", shown)
    assert median(seconds) < BOUND, shown


def one_run(space: Space) -> float:
    space.kubectl("apply", "-f", str(EXAMPLES / f"{JOB}.yaml"))
    space.until_true(JOB, "Running", REAL_SECONDS)
    waited = space.until_true(JOB, "Succeeded", REAL_SECONDS)
    for pod in space.names(JOB):
        log = space.logs(pod)
        for words in ("Timeout when waiting", "Traceback"):
            assert words not in log, f"{pod}: {log[-4000:]}"
    space.kubectl("delete", "dijob", JOB)
    space.until_left(JOB)
    return waited
