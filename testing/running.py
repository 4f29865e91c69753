"""Runs modules of the operator as processes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from planes import ROOT


@contextmanager
def running_module(module: str, log: Path, *arguments: str) -> Iterator[None]:
    """Run `python -m MODULE` with its output in `log`. At the end, the process must exit with 0 on
    SIGTERM.
    """
    argv = [sys.executable, "-m", module, *arguments]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    with log.open("ab") as out:
        process = subprocess.Popen(argv, env=env, stdout=out, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(20) == 0, log.read_text()
