"""Runs the Go tests of the launcher and of the image dijob/stacks. They cover timeouts, with a
simulated clock, and unusual errors.
"""

import subprocess
from pathlib import Path

import pytest
from pod import gobuild

SOURCES = pytest.mark.parametrize(
    "sources", [gobuild.SOURCES, gobuild.STACKS], ids=lambda path: path.name
)


@SOURCES
def test_its_own_tests_pass(sources: Path) -> None:
    done = gobuild.go("test", "-vet=all", "./...", sources=sources)
    assert done.returncode == 0, done.stdout + done.stderr


@SOURCES
def test_its_sources_have_gos_own_format(sources: Path) -> None:
    gofmt = Path(gobuild.go("env", "GOROOT").stdout.strip()) / "bin/gofmt"
    done = subprocess.run(
        [gofmt, "-l", sources], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
