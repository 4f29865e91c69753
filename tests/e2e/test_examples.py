"""Every file in examples/, applied as it is: what its ranks did together is read from their own
logs.
"""

import pytest
from jobs import EXAMPLES, succeeded
from space import Space

pytestmark = pytest.mark.e2e


def test_every_example_has_a_test() -> None:
    """Here, in test_first_steps.py (dijob.yaml), test_dqn_losses.py (cartpole-dqn),
    test_tasks_dqn.py (cartpole-tasks and what goes with it), test_recipes.py,
    apiserver/test_api.py (gpu), and where a runtime or a queue is the subject.
    """
    known = {"dijob.yaml", "star.yaml", "cartpole-dqn.yaml", "cartpole-tasks.yaml"}
    known |= {"volume.yaml", "tensorboard.yaml", "evaluate.yaml"}
    known |= {"dataset.yaml", "own-image.yaml", "gpu.yaml"}
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


def test_the_star_adds_up_what_its_workers_computed_apart(space: Space) -> None:
    succeeded(space, "star.yaml", "star")
    assert "pi is 3.14159, from nodes [1, 2, 3]" in space.logs("star-0")
    for rank in range(1, 4):
        assert f"node {rank} has received parts from nodes []" in space.logs(f"star-{rank}")
