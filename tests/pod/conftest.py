"""Fixtures: the launcher as in a pod, and the shells of users' commands."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cluster.waiting import until
from pod import gobuild
from pod.boxes import MARK, SHELLS, Box, program


@pytest.fixture(scope="session")
def launcher() -> Path:
    """The compiled program of images/launcher."""
    return gobuild.launcher()


@pytest.fixture(params=list(SHELLS))
def shell(request: pytest.FixtureRequest) -> list[str]:
    """A shell that users may use for their commands."""
    name, *words = SHELLS[request.param]
    return [program(name), *words]


@pytest.fixture
def box(launcher: Path) -> Iterator[Box]:
    """The launcher as an init container installs it. All processes are killed after the test."""
    # Not pytest's tmp_path, because other users must be able to enter the directory.
    path = Path(tempfile.mkdtemp(prefix="dijob-pod-"))
    path.chmod(0o755)
    python = path / "python"
    python.mkdir()
    (python / "python3").symlink_to(sys.executable)
    usual = {
        "PATH": f"{python}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C.UTF-8",
        "DIJOB_TERMINATION_LOG": str(path / "said-last"),
        "DIJOB_NAP": "0.1",
    }
    box = Box(path, {MARK: uuid.uuid4().hex, **usual})
    subprocess.run([launcher, "install"], env={"DIJOB_BIN_DIR": str(box.bin)}, check=True)
    yield box
    try:
        until("every process of the test has ended", lambda: str(box.alive() or ""), 60, pause=0.01)
    finally:
        for pid in box.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in box.started:
            process.kill()
            process.communicate()
        shutil.rmtree(path)


@pytest.fixture
def image(box: Box) -> Path:
    """The image's ditask, which prints its arguments, each terminated by NUL. Its directory is late
    in PATH.
    """
    ditask = box.script(
        "image/ditask", """#!/bin/sh\nfor a in "$@"; do printf '%s\\0' "$a"; done\n"""
    )
    box.env["PATH"] = f"{box.bin}/path:{box.env['PATH']}:{ditask.parent}"
    return ditask
