"""What `ui` shows first of a failed program: its exception."""

from typing import Any

import pytest
from dijob_extras.ui.failure import Output, describe_failure, split_output, summarize_failure
from unit.extras.seen import job, pod

EXCEPTION = "RuntimeError: the batch has no reward;\n  keys: obs, action"
FRAMES = 'Traceback (most recent call last):\n  File "main.py", line 22, in main\n    train()'
CAUSE = "Traceback (most recent call last):\n  File \"main.py\", line 16, in train\nKeyError: 'r'"
CHAIN = "The above exception was the direct cause of the following exception:"
WARNING = "/usr/lib/numba.py:12: NumbaWarning: no longer supported"
QUOTED = "  from numba import jit"
GYM = "Gym has been unmaintained since 2022"

OUTPUTS = [
    pytest.param("", Output(), id="no output"),
    pytest.param("step 1\nno GPU\n", Output(other="step 1\nno GPU"), id="no traceback"),
    pytest.param(
        f"{WARNING}\n{QUOTED}\n{GYM}\nstep 1\n{FRAMES}\n{EXCEPTION}\n",
        Output(EXCEPTION, FRAMES, "step 1", f"{WARNING}\n{QUOTED}\n{GYM}"),
        id="a traceback after warnings",
    ),
    pytest.param(
        f"{CAUSE}\n\n{CHAIN}\n\n{FRAMES}\n{EXCEPTION}",
        Output(EXCEPTION, f"{CAUSE}\n\n{CHAIN}\n\n{FRAMES}"),
        id="a chain",
    ),
    pytest.param(
        f"{CAUSE}\nstep 2\n{FRAMES}\n{EXCEPTION}",
        Output(EXCEPTION, FRAMES, f"{CAUSE}\nstep 2"),
        id="an earlier traceback",
    ),
    pytest.param(
        FRAMES.split("\n", 1)[1] + f"\n{EXCEPTION}",
        Output(EXCEPTION, FRAMES.split("\n", 1)[1]),
        id="a header that was cut off",
    ),
    pytest.param(
        f"KeyError: 'r'\n\n{CHAIN}\n\n{FRAMES}\n{EXCEPTION}",
        Output(EXCEPTION, f"KeyError: 'r'\n\n{CHAIN}\n\n{FRAMES}"),
        id="a chain that was cut off",
    ),
    pytest.param(FRAMES, Output(traceback=FRAMES), id="an exception that was cut off"),
    pytest.param("\x1b[31mred\x1b[0m", Output(other="red"), id="colors"),
]


@pytest.mark.parametrize(("text", "output"), OUTPUTS)
def test_the_exception_is_separated_from_other_output(text: str, output: Output) -> None:
    assert split_output(text) == output


FIRST: dict[str, Any] = {
    "rank": 1,
    "pod": "test-1",
    "node": "n1",
    "exitCode": 1,
    "reason": "Error",
    "message": EXCEPTION,
    "time": "2026-11-25T11:59:00Z",
}


def ended_with(text: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "reason": "Error", "message": text}}


def test_the_failure_has_the_longest_known_output() -> None:
    failed = job(phase="Failed", firstFailure=FIRST)
    full = f"{FRAMES}\n{EXCEPTION}\n"
    found = describe_failure(failed, [pod(0), pod(1, state=ended_with(full))])
    assert found == {
        "title": "Rank 1 exited 1: keys: obs, action",
        "rank": 1,
        "where": "pod test-1, node n1, exit code 1, reason Error",
        "time": FIRST["time"],
        "exception": EXCEPTION,
        "traceback": FRAMES,
        "other": "",
        "warnings": "",
    }


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="no pod"),
        pytest.param([pod(1, state=ended_with("another end"))], id="another failure since"),
        pytest.param([pod(0, state=ended_with(EXCEPTION))], id="another pod"),
    ],
)
def test_without_its_pod_the_failure_has_the_output_of_the_status(pods: list[Any]) -> None:
    found = describe_failure(job(phase="Failed", firstFailure=FIRST), pods)
    assert found is not None
    assert found["other"] == EXCEPTION


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"phase": "Failed"}, id="no failure of a rank"),
        pytest.param({"phase": "Running", "firstFailure": FIRST}, id="recovered"),
    ],
)
def test_a_job_without_a_failure(status: dict[str, Any]) -> None:
    assert describe_failure(job(**status), []) is None
    assert summarize_failure(job(**status)) == ""
