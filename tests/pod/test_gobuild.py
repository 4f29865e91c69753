"""The launcher's sources: what takes time or fails in odd ways is tested there, on a clock of its
own.
"""

import subprocess
from pathlib import Path

from pod import gobuild


def test_its_own_tests_pass() -> None:
    done = gobuild.go("test", "-vet=all", ".")
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_sources_have_gos_own_format() -> None:
    gofmt = Path(gobuild.go("env", "GOROOT").stdout.strip()) / "bin/gofmt"
    done = subprocess.run(
        [gofmt, "-l", gobuild.SOURCES], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
