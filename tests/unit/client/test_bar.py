"""The progress bar of a job: its content in terminals, notebooks and files."""

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from dijob.client import Bar, DijobError, Job
from dijob.client.bar import Shown, measure_progress, render_bar
from manifests import dijob
from pages import ROOT
from rich.console import Console

RUNS = [{"type": "Running", "status": "True", "reason": "AllRanksRun", "message": ""}]


def job(phase: str, **status: Any) -> Job:
    body = dijob("test", {"image": "x", "command": ["a"]}, replicas=4)
    return Job({**body, "status": {"phase": phase, "message": "so it is", **status}})


def reported(**progress: Any) -> Mapping[str, Any]:
    return {"progress": {"line": "step 30", **progress}, "conditions": RUNS}


CASES = {
    "nobody has looked at it": (Job(dijob("test", {"image": "x"})), "", "Pending", None),
    "half of the ranks": (job("Starting", desired=4, readyReplicas=2), "", "Starting", 0.5),
    "it runs, and reports nothing": (
        job("Running", desired=4, readyReplicas=4, conditions=RUNS),
        "env_step",
        "Running",
        None,
    ),
    "it reports": (job("Running", **reported(envStep=30)), "env_step", "Running", 0.3),
    "more than was asked": (job("Running", **reported(envStep=130)), "env_step", "Running", 1.0),
    "a bad return": (
        job("Running", **reported(episodeReturn=-5.0)),
        "episode_return",
        "Running",
        0.0,
    ),
    "what is not counted": (job("Running", **reported(envStep=30)), "", "Running", None),
    "succeeded": (job("Succeeded", **reported(envStep=30)), "env_step", "Succeeded", 1.0),
    "failed": (job("Failed", **reported(envStep=30)), "env_step", "Failed", 0.3),
}


@pytest.mark.parametrize(("state", "of", "phase", "part"), CASES.values(), ids=CASES)
def test_completed_part(state: Job, of: str, phase: str, part: float | None) -> None:
    found = measure_progress(state, of, 100.0)
    assert (found.phase, found.part) == (phase, part)


def test_the_line_contains_the_reported_progress() -> None:
    found = measure_progress(job("Running", **reported(envStep=30)), "env_step", 100.0)
    assert found.line == "test: Running 30%: so it is, step 30"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        pytest.param({"steps": 5}, "one of iteration, env_step, episode_return, not steps", id="?"),
        pytest.param({"iteration": 1, "env_step": 2}, "not iteration, env_step", id="two"),
        pytest.param({"iteration": 0}, "the number must be positive", id="nothing"),
    ],
)
def test_an_invalid_target_of_a_bar_is_rejected(target: dict[str, float], said: str) -> None:
    with pytest.raises(DijobError, match=said):
        Bar(**target)


def test_without_a_terminal_each_change_prints_a_line() -> None:
    out = io.StringIO()
    with Bar(env_step=100, file=out) as bar:
        for state in (job("Starting", desired=4), job("Starting", desired=4), job("Succeeded")):
            bar(state)
    assert out.getvalue().splitlines() == [
        "test: Starting 0%: so it is",
        "test: Succeeded 100%: so it is",
    ]


def read_terminal(reader: int) -> str:
    """Return all that was written to a terminal whose other end is closed. A single read returns
    only the data that the kernel has delivered so far.
    """
    said = b""
    with os.fdopen(reader, "rb", buffering=0) as file, suppress(OSError):  # EIO: the end
        while piece := file.read(65536):
            said += piece
    return said.decode()


def test_in_a_terminal_the_line_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as file, Bar(env_step=100, file=file) as bar:
        bar(job("Running", **reported(envStep=30)))
        bar(job("Succeeded", **reported(envStep=100)))
    said = read_terminal(reader)
    assert "30%" in said
    assert "100%" in said
    assert "\x1b[2K" in said, "the line of before is erased"


PARTS = {
    "half": (0.5, True, 15),
    "half of a picture": (0.5, False, 15),
    "all": (1.0, False, 30),
    "nobody knows, and nothing moves": (None, False, 0),
}


@pytest.mark.parametrize(("part", "moves", "width"), PARTS.values(), ids=PARTS)
def test_a_bar_is_as_wide_as_the_completed_part(
    part: float | None, moves: bool, width: int
) -> None:
    line = text(render_bar(Shown("test", "Running", part, "so it is"), moves=moves))
    assert line.count("\u2501") == width
    assert ("%" in line) == (part is not None)
    assert "so it is" in line


def test_a_bar_without_a_known_part_moves_in_a_terminal() -> None:
    assert "\u2501" in text(render_bar(Shown("test", "Running", None, "so it is")))


def text(shown: Any) -> str:
    """Return the text of a bar. Without colors, the bar itself is blank."""
    console = Console(file=io.StringIO(), width=100, record=True, color_system=None)
    console.print(shown)
    return console.export_text()


def test_the_client_does_not_import_rich() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    code = "import sys, dijob.client; print('rich' in sys.modules)"
    said = subprocess.check_output([sys.executable, "-c", code], text=True, env=env)
    assert said.strip() == "False"
