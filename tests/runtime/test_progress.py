"""The values in the lines that DI-engine logs."""

import pytest
from dijob_runtime.hook import progress

# The format of ding 0.5.3 (ding/framework/middleware/functional).
LINES = {
    "Evaluation: Train Iter(640) Env Step(9600) Episode Return(200.000) ": (640, 9600, 200.0),
    "Evaluation: Train Iter(5)\tEnv Step(64)\tMean Episode Return(-1.500)": (5, 64, -1.5),
    "Evaluation: Train Iter(5) Eval Return(9.250) x": (5, None, 9.25),
    # The format of 0.4.
    "Evaluation: Train Iter(5)\tEnv Step(64)\tEval Reward(9.250)": (5, 64, 9.25),
    "Training: Train Iter(7)\tLoss(0.500)": (7, None, None),
    "Train Iter(x) Env Step() Episode Return(nan)": (None, None, None),
    # Python does not convert this many digits.
    f"Train Iter({'9' * 5000}) Env Step(3)": (None, 3, None),
}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:60])
def test_the_figures_in_a_line(line: str) -> None:
    names = ("iteration", "env_step", "episode_return")
    found = {
        name: value for name, value in zip(names, LINES[line], strict=True) if value is not None
    }
    assert progress.parse_figures(line) == found
