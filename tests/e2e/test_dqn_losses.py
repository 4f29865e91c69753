"""cartpole-dqn loses a pod while it trains: a collector costs nothing but time, the learner has all begin anew."""

import pytest
from archives import ROOT
from demo import RETURN, TARGET
from identity import identities
from jobs import REAL_SECONDS
from space import Space, measured

pytestmark = pytest.mark.e2e

JOB = "cartpole-dqn"


def training(space: Space) -> None:
    """The example, up to the evaluator's first word: all four ranks work together."""
    space.kubectl("apply", "-f", str(ROOT / "examples/cartpole-dqn.yaml"))

    def problem() -> str:
        return "" if RETURN.search(space.logs(f"{JOB}-1")) else f"no return yet: {space.status(JOB).get('message')}"

    space.until("the evaluator has evaluated", problem, REAL_SECONDS)


def until_trained(space: Space) -> float:
    waited = space.until_true(JOB, "Succeeded", 2 * REAL_SECONDS)
    returns = [float(value) for value in RETURN.findall(space.logs(f"{JOB}-1"))]
    assert returns, space.logs(f"{JOB}-1")[-2000:]
    assert returns[-1] >= TARGET
    status = space.status(JOB)
    assert (status.get("restarts", 0), status["renewals"]) == (0, 1)
    return waited


@pytest.mark.parametrize(("victim", "renewed"), [(3, {3}), (0, {0, 1, 2, 3})], ids=["collector", "learner"])
def test_a_dqn_reaches_its_target_although_a_pod_was_deleted(space: Space, victim: int, renewed: set[int]) -> None:
    training(space)
    before = identities(space, JOB)
    space.kubectl("delete", "pod", f"{JOB}-{victim}", "--wait=false")
    space.until("the loss is told", lambda: "" if space.status(JOB).get("renewals") else "not told", 30)
    said = space.condition(JOB, "PeersReady")
    assert (said["status"], said["message"].split(":")[0]) == ("False", f"rank {victim}"), said
    waited = until_trained(space)
    after = {pod["metadata"]["name"]: pod for pod in space.pods(JOB)}
    assert after[f"{JOB}-{victim}"]["metadata"]["uid"] != before[f"{JOB}-{victim}"][0]
    starts = {name: pod["status"]["containerStatuses"][0]["restartCount"] for name, pod in after.items()}
    # Who dials the lost rank has started again in its own pod, with its emptyDirs.
    assert {name for name, count in starts.items() if count} == {f"{JOB}-{rank}" for rank in renewed - {victim}}
    kept = {name for name, pod in after.items() if pod["metadata"]["uid"] == before[name][0]}
    assert kept == after.keys() - {f"{JOB}-{victim}"}
    measured(f"seconds from the deletion of rank {victim} of cartpole-dqn until it has Succeeded", f"{waited:.0f}")
