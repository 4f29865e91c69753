"""A real DQN with tasks keeps its progress: it loses its learner, is suspended, edited and resumed,
deleted and created again, observed and evaluated.
"""

import copy
import re
from pathlib import Path

import pytest
import yaml
from demo import TARGET
from diary import exits, followed, kept
from identity import identities
from jobs import EXAMPLES, REAL_SECONDS
from space import Body, Space, measured
from volumes import volume

pytestmark = pytest.mark.e2e

NAME = "cartpole-tasks"
LEARNER, EVALUATOR = f"{NAME}-learner-0", f"{NAME}-evaluator-0"
NAMES = [f"{NAME}-{rest}" for rest in ("learner-0", "evaluator-0", "collector-0", "collector-1")]
TERM, KILLED = 143, 137
# An untrained policy has a return of 9 to 25 for at least 400 iterations. A trained policy
# occasionally has a lower return than this, as is usual for a DQN, but not for long.
LEARNED, SOON = 60.0, 200
EVALUATION = re.compile(r"Train Iter\((\d+)\)\s+Env Step\(\d+\)\s+Episode Return\(([0-9.]+)\)")
SAVED = re.compile(r"Saved iteration (\d+), exiting")
GOES_ON = re.compile(r"Resumed from iteration (\d+)")
ENDS = re.compile(r"in iteration (\d+): the training is complete")
KEPT = re.compile(r"the policy of iteration (\d+) had a return of ([0-9.]+) in the training")


def evaluations(text: str) -> list[tuple[int, float]]:
    """Return the iterations and returns in an evaluator's log, in order."""
    return [(int(iteration), float(value)) for iteration, value in EVALUATION.findall(text)]


def first_learned(text: str) -> int | None:
    """Return the first iteration in a log with a trained policy."""
    return next((iteration for iteration, value in evaluations(text) if value >= LEARNED), None)


def until_learned(space: Space) -> int:
    """Wait until the evaluator has a trained policy, and return its iteration."""
    found: list[int] = []

    def problem() -> str:
        text = space.logs(EVALUATOR)
        if (learned := first_learned(text)) is not None:
            found.append(learned)
        return "" if found else f"{evaluations(text)}"

    space.until("it has learned something", problem, REAL_SECONDS)
    return found[0]


def until_goes_on(space: Space, at_least: int) -> int:
    """Wait until the learner continues from a checkpoint, and return its iteration."""
    found: list[str] = []

    def problem() -> str:
        found[:] = GOES_ON.findall(space.logs(LEARNER))
        return "" if found else "it has loaded nothing yet"

    space.until("the learner goes on", problem, REAL_SECONDS)
    assert int(found[0]) >= at_least
    return int(found[0])


def suspend(space: Space, folder: Path) -> int:
    """Suspend the job, and return the iteration that its learner has saved."""
    with followed(space, LEARNER, folder / "learner.log", REAL_SECONDS):
        space.kubectl("patch", f"dijob/{NAME}", "--type=merge", "-p", '{"spec": {"suspend": true}}')
        waited = space.until_left(NAME)
        measured("seconds until a training that is suspended has no pods", f"{waited:.1f}")
    (saved,) = SAVED.findall((folder / "learner.log").read_text())
    space.until(
        "it is Suspended",
        lambda: "" if space.status(NAME)["phase"] == "Suspended" else "not yet",
        60,
    )
    return int(saved)


def test_a_dqn_continues_from_its_checkpoint_whatever_happens_to_its_pods(
    space: Space, tmp_path: Path
) -> None:
    """(test_policies.py tests that time spent suspended does not count for deadlines.)"""
    with volume(space, "cartpole", tmp_path / "out"):
        space.kubectl("apply", "-f", str(EXAMPLES / "volume.yaml"))
        learns_through_a_loss_and_a_suspension(space, tmp_path)


@pytest.mark.long
def test_a_dqn_that_has_ended_is_applied_again_watched_evaluated_and_copied(
    space: Space, tmp_path: Path
) -> None:
    with volume(space, "cartpole", tmp_path / "out"):
        space.kubectl("apply", "-f", str(EXAMPLES / "volume.yaml"))
        space.kubectl("apply", "-f", str(EXAMPLES / "cartpole-tasks.yaml"))
        with followed(space, EVALUATOR, tmp_path / "first.log", REAL_SECONDS):
            space.until_true(NAME, "Succeeded", REAL_SECONDS)
        begins_where_it_ended_when_it_is_applied_again(space, tmp_path)
        is_watched_evaluated_and_copied(space, tmp_path)


def learns_through_a_loss_and_a_suspension(space: Space, folder: Path) -> None:
    body, code = yaml.safe_load_all((EXAMPLES / "cartpole-tasks.yaml").read_text())
    # Otherwise it would reach its target within seconds.
    space.apply(with_target(body, 1000.0), code)
    learned = until_learned(space)
    measured("iterations until a new policy has learned something", learned)
    before = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(NAME)}
    assert list(before) == NAMES
    space.until("its learner has reported", lambda: lacking_progress(space, learned), REAL_SECONDS)

    evaluator = identities(space, NAME)[EVALUATOR]
    space.kubectl("delete", "pod", LEARNER)
    begun = until_goes_on(space, learned)
    # Until the evaluator has restarted, its log shows what it saw before.
    space.until(
        "the evaluator has restarted",
        lambda: "" if identities(space, NAME).get(EVALUATOR, evaluator) != evaluator else "not yet",
        REAL_SECONDS,
    )
    assert 0 <= until_learned(space) - begun <= SOON, evaluations(space.logs(EVALUATOR))

    saved = suspend(space, folder)
    edited = with_target(body, TARGET)
    space.apply({**edited, "spec": {**edited["spec"], "suspend": True}})
    assert not space.pods(NAME)
    with kept(space, "pods") as diary:
        patch = '{"spec": {"suspend": false}}'
        space.kubectl("patch", f"dijob/{NAME}", "--type=merge", "-p", patch)
        assert until_goes_on(space, saved) == saved
        after = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(NAME)}
        assert after == before
        learns_to_the_end(space, saved, folder / "evaluator.log")
        space.until("all ends are seen", lambda: " ".join(set(NAMES) - exits(diary).keys()), 60)
    status = space.status(NAME)
    assert status["suspendedSeconds"] >= 1
    assert (status.get("restarts", 0), status.get("renewals", 0)) == (0, 1)
    ended = exits(diary)
    measured("exit codes of cartpole-tasks", ended)
    assert ended[LEARNER] == 0
    # Ranks that were still running when the learner had succeeded got SIGTERM, and none was killed.
    assert {ended[f"{NAME}-collector-{number}"] for number in range(2)} <= {0, TERM}
    assert KILLED not in ended.values()


def lacking_progress(space: Space, iteration: int) -> str:
    """Return the status's progress until it has this iteration, a return, and the share of time
    that the learner waits for the collectors.
    """
    known = space.status(NAME).get("progress", {})
    wanted = {"iteration", "envStep", "episodeReturn", "waitingPercent", "bufferPercent"}
    enough = wanted <= known.keys() and known["iteration"] >= iteration
    if enough:
        measured("progress of the learner", known)
    return "" if enough else f"{known}"


def with_target(body: Body, target: float) -> Body:
    """Return the job with another target return."""
    made = copy.deepcopy(body)
    for task in made["spec"]["tasks"]:
        for variable in task["template"]["spec"]["containers"][0]["env"]:
            if variable["name"] == "STOP_VALUE":
                variable["value"] = str(target)
    return made


def learns_to_the_end(space: Space, begun: int, log: Path) -> None:
    """Wait until the job, whose learner started from iteration `begun`, has succeeded."""
    with followed(space, EVALUATOR, log, REAL_SECONDS):
        space.until_true(NAME, "Succeeded", REAL_SECONDS)
        space.until("nobody runs any more", lambda: " ".join(still_running(space)), 60)
    text = log.read_text()
    learned, seen = first_learned(text), evaluations(text)
    measured("iteration of the start, and what the evaluator saw then", f"{begun}, {seen}")
    assert learned is not None, text[-2000:]
    assert 0 <= learned - begun <= SOON
    # The target ends the training, and all ranks learn of it some evaluations later.
    assert max(value for _, value in seen) >= TARGET
    assert "Timeout when waiting" not in text


def still_running(space: Space) -> list[str]:
    pods = space.pods(NAME)
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]


def begins_where_it_ended_when_it_is_applied_again(space: Space, folder: Path) -> None:
    last = int(ENDS.findall(space.logs(LEARNER))[0])
    space.kubectl("delete", "-f", str(EXAMPLES / "cartpole-tasks.yaml"))
    space.until_left(NAME)
    space.kubectl("apply", "-f", str(EXAMPLES / "cartpole-tasks.yaml"))
    learns_to_the_end(space, until_goes_on(space, last), folder / "again.log")


SCALARS = "http://localhost:6006/data/plugin/scalars/tags"


def is_watched_evaluated_and_copied(space: Space, folder: Path) -> None:
    for file in ("tensorboard.yaml", "evaluate.yaml"):
        space.kubectl("apply", "-f", str(EXAMPLES / file))
    space.until_true("evaluate", "Succeeded", REAL_SECONDS)
    (mean,) = re.findall(r"mean return of 20 episodes: ([0-9.]+)", space.logs("evaluate-0"))
    measured("mean return of the policy that was kept", mean)
    assert float(mean) >= LEARNED
    # The best result of all starts.
    ((_, kept),) = KEPT.findall(space.logs("evaluate-0"))
    assert float(kept) >= TARGET
    space.kubectl("rollout", "status", "deployment/tensorboard", "--timeout=120s", timeout=130)
    ask = f"import urllib.request as u; print(u.urlopen('{SCALARS}').read())"

    def nothing_yet() -> str:
        said = space.kubectl("exec", "deployment/tensorboard", "--", "python3", "-c", ask)
        tags = ("basic/train_total_loss", "basic/eval_episode_return_mean-train_iter")
        return "" if all(tag in said for tag in tags) else said

    space.until("TensorBoard shows the training", nothing_yet, 60)
    (pod,) = space.kubectl("get", "pod", "-l", "app=tensorboard", "-o", "name").split()
    space.kubectl("cp", f"{pod.partition('/')[2]}:/out", str(folder / "copy"))
    copied = {path.name for path in (folder / "copy").iterdir()}
    assert {"state.pth", "policy.pth", "ckpt"} <= copied
