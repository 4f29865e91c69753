"""tasks[].runtime: torch with real DI-engine and real torch: two learners and two collectors, each
kind lost once.
"""

import re

import pytest
import yaml
from identity import kill_program
from jobs import EXAMPLES, REAL_SECONDS
from space import Space, measured

pytestmark = pytest.mark.e2e

NAME = "learners-collectors"
LEARNERS = [f"{NAME}-learner-{index}" for index in range(2)]
COLLECTORS = [f"{NAME}-collector-{index}" for index in range(2)]
SHOWN = re.compile(r"rank (\d) of 2: iteration (\d+): the learners have the same weights")


def iterations(space: Space, learner: str) -> list[int]:
    """Return the iterations that a learner has printed, in order."""
    index = learner[-1]
    return [int(number) for rank, number in SHOWN.findall(space.logs(learner)) if rank == index]


def uids(space: Space) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.pods(NAME)}


def until_trained(space: Space, learner: str, more: int) -> None:
    """Wait until a learner has printed its iteration more than `more` times."""
    space.until(
        f"{learner} trains",
        lambda: "" if len(found := iterations(space, learner)) > more else f"{found}",
        REAL_SECONDS,
    )


def until_peers(space: Space, revision: int) -> float:
    """Wait until all ranks are Ready with this revision of the peer list."""

    def problem() -> str:
        number = space.status(NAME)["listNumber"]
        ready = space.condition(NAME, "PeersReady")
        return "" if number == revision and ready["status"] == "True" else f"{number}, {ready}"

    return space.until(f"all are Ready with revision {revision}", problem, REAL_SECONDS)


def test_a_lost_collector_restarts_no_learner_and_a_failed_learner_restarts_both(
    space: Space,
) -> None:
    """The program ends only after both losses."""
    job, code = yaml.safe_load_all((EXAMPLES / f"{NAME}.yaml").read_text())
    end = "if ctx.train_iter >= ITERATIONS"
    script = code["data"]["train.py"]
    assert script.count(end) == 1
    code["data"]["train.py"] = script.replace(end, f'{end} and os.environ["DI_LIST_NUMBER"] == "3"')
    space.apply(job, code)
    until_trained(space, LEARNERS[1], 0)
    before = uids(space)

    space.kubectl("delete", "pod", COLLECTORS[0], "--wait=false")
    waited = until_peers(space, 2)
    measured("seconds from the loss of a collector until all are Ready", f"{waited:.0f}")
    after = uids(space)
    assert {name for name in before if before[name] != after[name]} == {COLLECTORS[0]}
    until_trained(space, LEARNERS[1], len(iterations(space, LEARNERS[1])))
    shown = iterations(space, LEARNERS[1])
    assert shown == sorted(shown), "the learners' programs have not restarted"

    kill_program(space, LEARNERS[1])
    waited = space.until_true(NAME, "Succeeded", REAL_SECONDS)
    measured("seconds from a learner's failure until the training has ended", f"{waited:.0f}")
    status = space.status(NAME)
    # A rank that ends after another one has succeeded may get one more list.
    assert status["listNumber"] >= 3
    assert (status["renewals"], status["restarts"]) == (2, 1)
    # The other learner fails as well, because it loses its connection.
    message = status["lastRenewal"]["message"]
    assert message.startswith(("rank 0 ", "rank 1 "))
    assert message.endswith("and runtime: torch restarts the whole task")
    for learner in LEARNERS:
        assert iterations(space, learner)[-1] == 1000
    ended = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in space.pods(NAME)}
    assert all(ended[learner] != before[learner] for learner in LEARNERS)
