"""`make stress`: whether the tests pass again and again, the unit tests beside busy processes.

Each run's output goes to a file of its own. The first failure does not end the others: how often a
test fails is what one wants to know.
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
    """So many busy processes inside the block."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def make(target: str, log: Path) -> int:
    """The exit code of a target of the Makefile, whose output goes to the log."""
    with (
        log.open("wb") as output,
        subprocess.Popen(["make", target], cwd=ROOT, stdout=output, stderr=subprocess.STDOUT) as it,
    ):
        try:
            return it.wait()
        except SystemExit:  # make hands TERM on; Ctrl-C has reached everybody already
            it.terminate()
            raise
        finally:
            it.wait()


def repeat(target: str, times: int, logs: Path) -> int:
    """Run a target of the Makefile so often; how many runs failed."""
    failed = 0
    for run in range(1, times + 1):
        log, begin = logs / f"{target}-{run}.log", time.monotonic()
        code = make(target, log)
        failed += code != 0
        said = "passed" if code == 0 else f"FAILED, see {log}"
        print(
            f"make {target}, {run} of {times}: {said} after {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    return failed


def main() -> int:
    """0 where no run failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logs = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dijob/stress"
    logs.mkdir(parents=True, exist_ok=True)
    with load(int(os.environ.get("LOAD", "4"))):
        failed = repeat("unit", int(os.environ.get("UNIT", "20")), logs)
    failed += repeat("e2e", int(os.environ.get("E2E", "3")), logs)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
