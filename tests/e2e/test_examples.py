"""Every file in examples/, applied as it is: what its ranks did together is read from their own
logs.
"""

import pytest
from jobs import EXAMPLES, REAL_SECONDS
from space import Space, measured

pytestmark = pytest.mark.e2e


def test_every_example_has_a_test() -> None:
    """Here, in test_first_steps.py (dijob.yaml), test_dqn_losses.py (cartpole-dqn),
    test_tasks_dqn.py (cartpole-tasks), and where a runtime or a queue is the subject.
    """
    known = {"dijob.yaml", "star.yaml", "cartpole-dqn.yaml", "cartpole-tasks.yaml"}
    known |= {
        "events.yaml",
        "torch.yaml",
        "slurm.yaml",
        "oneflow.yaml",
        "runner.yaml",
        "redis.yaml",
        "torchrpc.yaml",
    }
    assert {path.name for path in EXAMPLES.iterdir()} == known


def test_the_star_adds_up_what_its_workers_computed_apart(space: Space) -> None:
    space.kubectl("apply", "-f", str(EXAMPLES / "star.yaml"))
    waited = space.until_true("star", "Succeeded", REAL_SECONDS)
    measured("seconds until star.yaml has Succeeded", f"{waited:.0f}")
    assert "pi is 3.14159, from nodes [1, 2, 3]; results they heard of each other: 0" in space.logs(
        "star-0"
    )
