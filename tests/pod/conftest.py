"""The fixture of these tests: the launcher as it is delivered, under each shell."""

import os
import shlex
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
from dijob import pod as scripts
from pod import gobuild
from pod.boxes import MARK, SHELLS, STATIC, Box, program


@pytest.fixture(scope="session")
def applets() -> Iterator[Path]:
    """A folder with nothing but busybox's programs, as small images have it."""
    busybox = program("busybox")
    folder = Path(tempfile.mkdtemp(prefix="dijob-applets-"))
    folder.chmod(0o755)
    subprocess.run([busybox, "--install", "-s", str(folder)], check=True, capture_output=True)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def launcher() -> Path:
    """The static launcher of images/launcher."""
    return gobuild.launcher()


@pytest.fixture(params=[*SHELLS, STATIC])
def box(request: pytest.FixtureRequest) -> Iterator[Box]:
    """The launcher as it is delivered, its first line naming the shell under test; nothing outlives
    the test.
    """
    shell = shlex.split(SHELLS.get(request.param, ""))
    shell[:1] = [program(word) for word in shell[:1]]
    # Not pytest's tmp_path: other users must be able to enter.
    path = Path(tempfile.mkdtemp(prefix="dijob-pod-"))
    path.chmod(0o755)
    python = path / "python"
    python.mkdir()
    (python / "python3").symlink_to(sys.executable)
    search = f"{python}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if request.param == "busybox":
        search = f"{python}:{request.getfixturevalue('applets')}"
    usual = {
        "DIJOB_POD_DIR": str(path / "pod"),
        "DIJOB_TERMINATION_LOG": str(path / "said-last"),
        "DIJOB_NAP": "0.1",
    }
    box = Box(
        path,
        shell,
        {"PATH": search, MARK: uuid.uuid4().hex, "LC_ALL": "C.UTF-8", **usual},
    )
    if request.param == STATIC:
        install = [request.getfixturevalue("launcher"), "install"]
        subprocess.run(install, env={"DIJOB_BIN_DIR": str(box.bin)}, check=True)
    else:
        first = "#!" + " ".join(box.shell) + "\n"
        for name, text in (("launch", scripts.LAUNCHER), ("ditask", scripts.DITASK)):
            box.script(f"bin/{name}", first + text.partition("\n")[2])
        box.script("bin/reach.py", scripts.REACH)
    yield box
    try:
        until("every process of the test has ended", lambda: str(box.alive() or ""), 20, pause=0.01)
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
    """The image's ditask says its arguments, each ended by a NUL; its folder comes late in PATH."""
    ditask = box.script(
        "image/ditask", """#!/bin/sh\nfor a in "$@"; do printf '%s\\0' "$a"; done\n"""
    )
    box.env["PATH"] = f"{box.bin}:{box.env['PATH']}:{ditask.parent}"
    return ditask
