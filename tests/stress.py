"""`make stress`: repeats the tests to find flaky ones; the unit tests run next to busy processes.

The output of each run goes to its own file. A failure does not end the remaining runs, because the
failure rate is of interest.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
BUSY: Final = "while True: pass"


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Run this number of busy processes during the block."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def make(target: str, log: Path) -> int:
    """Run a target of the Makefile with its output in the log, and return the exit code."""
    with (
        log.open("wb") as output,
        subprocess.Popen(["make", target], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as it,
    ):
        try:
            return it.wait()
        except SystemExit:  # make passes TERM on; Ctrl-C has reached all processes already
            it.terminate()
            raise
        finally:
            it.wait()


def repeat(target: str, times: int, logs: Path) -> int:
    """Run a target of the Makefile `times` times, and return the number of failed runs."""
    failed = 0
    for run in range(1, times + 1):
        log, begin = logs / f"{target}-{run}.log", time.monotonic()
        code = make(target, log)
        failed += code != 0
        result = "passed" if code == 0 else f"FAILED, see {log}"
        print(
            f"make {target}, {run} of {times}: {result} after {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return failed


def main() -> int:
    """Exit code 0 if no run failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logs = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob/stress"
    logs.mkdir(parents=True, exist_ok=True)
    with load(int(os.environ.get("LOAD", "4"))):
        failed = repeat("unit-all", int(os.environ.get("UNIT", "20")), logs)
    failed += repeat("e2e", int(os.environ.get("E2E", "3")), logs)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
