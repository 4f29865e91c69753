"""The command line converts two Slurm batch scripts, and the resulting DIJobs run to completion."""

import subprocess
import sys
from pathlib import Path

import pytest
from jobs import LIGHT
from space import Space

pytestmark = pytest.mark.e2e

SCRIPTS = Path(__file__).parents[1] / "unit/extras/slurm"


def converted(name: str) -> str:
    """Return the output of `kubectl dijob from-slurm`."""
    argv = ["from-slurm", str(SCRIPTS / f"{name}.sbatch"), "--image", LIGHT]
    done = subprocess.run(
        [sys.executable, "-m", "dijob.cli.main", *argv], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_converted_job_meets_by_slurm_variables(space: Space) -> None:
    space.kubectl("apply", "-f", "-", stdin=converted("sockets"))
    space.until_true("sockets", "Succeeded", 180)
    assert space.printed("sockets-0") == "rank 0 of 2 heard ['1']\n"


def test_a_converted_mesh_of_three_tasks_succeeds(space: Space) -> None:
    space.kubectl("apply", "-f", "-", stdin=converted("peers"))
    space.until_true("peers", "Succeeded", 180)
    assert all("complete: 2 edges" in space.logs(f"peers-{rank}") for rank in range(3))
