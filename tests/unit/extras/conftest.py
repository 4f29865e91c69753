"""The fixtures of the command line's tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.waiting import until
from unit.extras.local_runs import MARKED, ROOT, alive


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    """Start `dijob local` with a file. At the end, check that none of its processes is left."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "operator"), MARKED: str(tmp_path)}

    started: list[subprocess.Popen[str]] = []

    def start(text: str, *args: str) -> subprocess.Popen[str]:
        file = tmp_path / "job.yaml"
        file.write_text(text)
        process = subprocess.Popen(
            [sys.executable, "-m", "dijob.cli.main", "local", str(file), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        process.stderr.close()  # type: ignore[union-attr]
    until("no process is left", lambda: str(alive(tmp_path) or ""), 30)
