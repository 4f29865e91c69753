"""Runs the operator, and notes the longest steps of its event loop: python -m faults.stretches FILE dijob ARGS.

A step is what a task does between two pauses. Of each look at what has come in meanwhile, with all the steps since the
look before, one line says how long its longest step took, and all together, in seconds of the thread's CPU.
"""

import asyncio
import runpy
import selectors
import sys
import time
from pathlib import Path
from typing import Any

# Shorter ones are of no interest.
NOTED_SECONDS = 0.02


class Stretches:
    """Writes them down as they happen."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begin: float | None = None  # before the first look it is not a loop yet
        self._worst = (0.0, "")

    def install(self) -> None:
        """For each loop that is made from now on."""
        this = self

        class Selector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> Any:
                this._end()
                found = super().select(timeout)
                this._begin = time.thread_time()
                return found

        selectors.DefaultSelector = Selector  # type: ignore[misc]
        run = asyncio.Handle._run

        def measured(handle: asyncio.Handle) -> None:
            begin = time.thread_time()
            run(handle)
            took = time.thread_time() - begin
            if took > self._worst[0]:
                self._worst = took, repr(handle) if took > NOTED_SECONDS else ""

        asyncio.Handle._run = measured  # type: ignore[assignment, method-assign]

    def _end(self) -> None:
        if self._begin is None:
            return
        took, worst = time.thread_time() - self._begin, self._worst
        self._worst = (0.0, "")
        if took > NOTED_SECONDS:
            with self._file.open("a") as file:
                file.write(f"{worst[0]:.4f} of {took:.4f} in {worst[1]}\n")


def longest(file: Path) -> tuple[float, list[str]]:
    """The longest step of a task, in seconds, and the ten longest in words."""
    lines = file.read_text().splitlines() if file.exists() else []
    ordered = sorted(lines, key=lambda line: -float(line.split()[0]))
    return (float(ordered[0].split()[0]) if ordered else 0.0), ordered[:10]


if __name__ == "__main__":
    _, path, module, *arguments = sys.argv
    Stretches(Path(path)).install()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
