"""A real DQN with tasks that is suspended on its way, edited, and resumed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from archives import ROOT
from demo import RETURN, TARGET
from diary import exits, kept
from jobs import REAL_SECONDS
from space import MAIN, Space, measured

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "examples/cartpole-tasks.yaml"
NAMES = ["learner-0", "evaluator-0", "collector-0", "collector-1"]
TERM, KILLED = 143, 137


@contextmanager
def followed(space: Space, pod: str, log: Path) -> Iterator[None]:
    """Writes down what the pod's main container prints: its logs go with it."""
    command = space.command("logs", "-f", pod, "-c", MAIN)
    with log.open("w") as file, subprocess.Popen(command, stdout=file) as run:
        try:
            yield
        finally:
            run.terminate()


def trained(space: Space, name: str, number: int) -> str:
    """Why the evaluator has not evaluated with this list yet; "" once it has."""
    status = space.status(name)
    if status.get("listNumber") != number or not RETURN.search(space.logs(f"{name}-evaluator-0")):
        return f"no return yet: {status.get('message')}"
    return ""


def still_running(space: Space, name: str) -> list[str]:
    return [
        pod["metadata"]["name"] for pod in space.pods(name) if pod["status"]["phase"] == "Running"
    ]


def test_a_dqn_with_tasks_is_suspended_edited_and_trained_to_its_target(
    space: Space, tmp_path: Path
) -> None:
    """examples/cartpole-tasks.yaml. (That no deadline counts the time suspended is
    test_policies.py's.)
    """
    name = "cartpole-tasks"
    (body,) = yaml.safe_load_all(EXAMPLE.read_text())
    space.apply(body)
    space.until("the evaluator has evaluated", lambda: trained(space, name, 1), REAL_SECONDS)
    before = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(name)}
    assert list(before) == [f"{name}-{rest}" for rest in NAMES]

    space.kubectl("patch", f"dijob/{name}", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    measured(
        "seconds until a training that is suspended has no pods", f"{space.until_left(name):.1f}"
    )
    space.until(
        "it is Suspended",
        lambda: "" if space.status(name)["phase"] == "Suspended" else "not yet",
        10,
    )
    for task in body["spec"]["tasks"]:
        task["template"]["spec"]["containers"][0]["env"].append(
            {"name": "EDITED", "value": "meanwhile"}
        )
    space.apply({**body, "spec": {**body["spec"], "suspend": True}})
    assert not space.pods(name)

    with kept(space, "pods") as diary:
        space.kubectl(
            "patch", f"dijob/{name}", "--type=merge", "-p", '{"spec": {"suspend": false}}'
        )
        space.until("it trains again", lambda: trained(space, name, 2), REAL_SECONDS)
        with followed(space, f"{name}-evaluator-0", tmp_path / "evaluator.log"):
            after = {pod["metadata"]["name"]: pod["metadata"]["labels"] for pod in space.pods(name)}
            assert after == before
            main = space.pods(name)[0]["spec"]["containers"][0]
            assert {"name": "EDITED", "value": "meanwhile"} in main["env"]
            waited = space.until_true(name, "Succeeded", 2 * REAL_SECONDS)
            measured(
                "seconds from the first evaluation to the success of cartpole-tasks.yaml",
                f"{waited:.0f}",
            )
            space.until("nobody runs any more", lambda: " ".join(still_running(space, name)), 60)
    returns = [float(value) for value in RETURN.findall((tmp_path / "evaluator.log").read_text())]
    measured("the evaluator's last Episode Return", returns[-1] if returns else "none")
    assert returns
    assert returns[-1] >= TARGET
    status = space.status(name)
    assert status["suspendedSeconds"] >= 1
    assert (status.get("restarts", 0), status.get("renewals", 0)) == (0, 0)
    ended = exits(diary)
    measured("exit codes of cartpole-tasks", ended)
    assert ended[f"{name}-learner-0"] == 0
    # Those that were not done when the learner was have been asked to end, and nobody had to be
    # killed.
    assert {ended[f"{name}-collector-{number}"] for number in range(2)} <= {0, TERM}
    assert KILLED not in ended.values()
