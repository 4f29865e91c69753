"""Runs the operator, and notes the longest steps of its event loop: python -m faults.stretches FILE
dijob ARGS.

A step is what a task does between two pauses. Of each look at what has come in meanwhile, with all
the steps since the look before, one line says how long its longest step took, and all together, in
seconds of the thread's CPU.
"""

import asyncio
import gc
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
        self._collecting = 0.0

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

        gc.callbacks.append(self._collected)
        asyncio.Handle._run = measured  # type: ignore[assignment, method-assign]

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Garbage is looked for within a step: how long that took, where it is worth noting."""
        if phase == "start":
            self._collecting = time.thread_time()
        elif (took := time.thread_time() - self._collecting) > NOTED_SECONDS:
            self._note(took, took, f"a collection of generation {info['generation']}")

    def _note(self, longest: float, all_: float, what: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{longest:.4f} of {all_:.4f} in {what}\n")

    def _end(self) -> None:
        if self._begin is None:
            return
        took, worst = time.thread_time() - self._begin, self._worst
        self._worst = (0.0, "")
        if took > NOTED_SECONDS:
            self._note(worst[0], took, worst[1])


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
