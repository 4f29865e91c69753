"""Every file in examples/, applied unchanged. The result is read from the ranks' logs."""

import re

import pytest
from archives import archive
from jobs import EXAMPLES, REAL_SECONDS, succeeded
from space import Space

pytestmark = pytest.mark.e2e


def test_every_example_has_a_test() -> None:
    """Tests are here, in test_first_steps.py (dijob.yaml), test_dqn_losses.py (cartpole-dqn),
    test_tasks_dqn.py (cartpole-tasks and its other files), test_learners_collectors.py,
    test_autoscaler.py (autoscaler, metrics-adapter), test_resume.py (resume, cartpole-ddp),
    test_recipes.py, apiserver/test_api.py (gpu), and in the tests about runtimes and queues.
    """
    known = {"dijob.yaml", "star.yaml", "cartpole-dqn.yaml", "cartpole-tasks.yaml"}
    known |= {"volume.yaml", "tensorboard.yaml", "evaluate.yaml"}
    known |= {"dataset.yaml", "own-image.yaml", "gpu.yaml", "learners-collectors.yaml"}
    known |= {"cartpole-ddp.yaml", "league.yaml", "resume.yaml", "stalled.yaml"}
    known |= {"autoscaler.yaml", "metrics-adapter.yaml", "current-python.yaml"}
    known |= {
        "events.yaml",
        "torch.yaml",
        "slurm.yaml",
        "oneflow.yaml",
        "runner.yaml",
        "redis.yaml",
        "torchrpc.yaml",
    }
    assert {path.name for path in EXAMPLES.glob("*.yaml")} == known
    page = (EXAMPLES / "README.md").read_text()
    assert [name for name in known if f"({name})" not in page] == []


@pytest.mark.long
def test_the_star_adds_up_the_results_of_its_workers(space: Space) -> None:
    succeeded(space, "star.yaml", "star")
    assert "pi is 3.14159, from nodes [1, 2, 3]" in space.logs("star-0")
    for rank in range(1, 4):
        assert f"node {rank} has received parts from nodes []" in space.logs(f"star-{rank}")


def test_a_training_that_hangs_is_reported_with_its_stack_and_restarts_once(space: Space) -> None:
    """The real PPO hangs in its environment. The event stays after the restart."""
    space.kubectl("apply", "-f", str(EXAMPLES / "stalled.yaml"))
    space.until_true("stalled", "Succeeded", REAL_SECONDS)
    events = space.kubectl(
        "get", "events", "-o", r'jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}'
    )
    reported = [line for line in events.splitlines() if line.startswith("NoProgress ")]
    assert len(reported) == 1, events
    assert "stallSeconds is 30. Main threads: rank 0: wait_for_simulator (main.py:" in reported[0]
    status = space.status("stalled")
    assert (status["restarts"], status["stall"]["restarted"]) == (1, "0")
    assert status["lastRenewal"]["reason"] == "ProgressStalled"
    (pod,) = space.pods("stalled")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1  # in its pod


@pytest.mark.long
def test_several_ditasks_in_one_container_form_a_league(space: Space) -> None:
    succeeded(space, "league.yaml", "league")
    assert "node 0 (league) has heard of nodes [10, 11, 20]\n" in space.logs("league-0")


@pytest.mark.long
def test_di_engine_runs_with_python_3_13_numpy_2_and_torch_2(space: Space) -> None:
    """The image contains no file of this project. Without the hook, the program fails."""
    image = archive("py313")
    assert image.stat().st_size < 1.7e9  # images/README.md
    space.cluster.load([image])
    succeeded(space, "current-python.yaml", "current-python")
    log = space.logs("current-python-0")
    assert re.search(r"^Python 3\.13\.\d+, NumPy 2\.\S+, torch 2\.\S+: trained$", log, re.MULTILINE)
    (added,) = re.findall(
        r"^dijob: added for DI-engine, .* longer have it: (.*) \(", log, re.MULTILINE
    )
    assert {"numpy.bool8", "numpy.float_", "yapf"} <= set(added.split(", "))
