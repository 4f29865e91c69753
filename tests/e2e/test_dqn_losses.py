"""cartpole-dqn loses pods while it trains: after the learner's loss all ranks restart, and a lost
collector costs only time.
"""

import pytest
from archives import ROOT
from demo import RETURN, TARGET
from identity import identities
from jobs import REAL_SECONDS
from space import Body, Space, measured

# test_tasks_dqn.py shows in `make test` that a DQN survives the loss of its learner, and
# test_renewals.py and test_healing.py show which ranks restart.
pytestmark = [pytest.mark.e2e, pytest.mark.long]

JOB = "cartpole-dqn"


def pods(space: Space) -> dict[str, Body]:
    return {pod["metadata"]["name"]: pod for pod in space.pods(JOB)}


def starts(pod: Body) -> int:
    """Return the restart count of the pod's main container."""
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", ()))


def until_evaluated(space: Space, start: int) -> None:
    """Wait for the evaluator's first log line after its start or restart number `start`. It shows
    that all four ranks work together.
    """

    def problem() -> str:
        evaluator = pods(space).get(f"{JOB}-1", {"status": {}})
        heard = starts(evaluator) == start and RETURN.search(space.logs(f"{JOB}-1"))
        return "" if heard else f"no return yet: {space.status(JOB).get('message')}"

    space.until("the evaluator has evaluated", problem, REAL_SECONDS)
    space.until_true(JOB, "PeersReady", REAL_SECONDS)


def lose(space: Space, rank: int, renewals: int) -> None:
    space.kubectl("delete", "pod", f"{JOB}-{rank}", "--wait=false")
    space.until(
        "the loss is told",
        lambda: "" if space.status(JOB).get("renewals") == renewals else "not told",
        30,
    )
    said = space.condition(JOB, "PeersReady")
    assert (said["status"], said["message"].split(":")[0]) == ("False", f"rank {rank}"), said


def test_a_dqn_reaches_its_target_after_the_loss_of_learner_and_collector(
    space: Space,
) -> None:
    space.kubectl("apply", "-f", str(ROOT / "examples/cartpole-dqn.yaml"))
    until_evaluated(space, start=0)
    first = identities(space, JOB)
    lose(space, 0, renewals=1)
    until_evaluated(space, start=1)
    # Ranks that dial the lost rank have restarted in their pods, and kept their emptyDirs.
    second = identities(space, JOB)
    assert {name for name in first if first[name][0] != second[name][0]} == {f"{JOB}-0"}
    assert [starts(pod) for pod in space.pods(JOB)] == [0, 1, 1, 1]
    lose(space, 3, renewals=2)
    waited = space.until_true(JOB, "Succeeded", 2 * REAL_SECONDS)
    third = pods(space)
    assert {name for name in second if second[name][0] != third[name]["metadata"]["uid"]} == {
        f"{JOB}-3"
    }
    assert [starts(pod) for pod in space.pods(JOB)] == [0, 1, 1, 0]
    returns = [float(value) for value in RETURN.findall(space.logs(f"{JOB}-1"))]
    assert returns, space.logs(f"{JOB}-1")[-2000:]
    assert returns[-1] >= TARGET
    status = space.status(JOB)
    assert (status.get("restarts", 0), status["renewals"]) == (0, 2)
    measured(
        "seconds from the deletion of rank 3 of cartpole-dqn until it has Succeeded",
        f"{waited:.0f}",
    )
