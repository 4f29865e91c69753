"""Runs the operator, and records the longest steps of its event loop: python -m
faults.lab.stretches FILE dijob ARGS.

A step is what a task does between two awaits. Each line describes one iteration of the event loop.
It contains the duration of the longest step and the total duration of all steps, in CPU seconds of
the thread.
"""

import asyncio
import gc
import runpy
import selectors
import sys
import time
from pathlib import Path
from typing import Any

# Shorter steps are not recorded.
NOTED_SECONDS = 0.02


class Stretches:
    """Records steps as they happen."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._begin: float | None = None  # None until the first iteration
        self._worst = (0.0, "")
        self._collecting = 0.0

    def install(self) -> None:
        """Install the recorder for each event loop that is created from now on."""
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
        """Record long garbage collections, which happen within a step."""
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
    """Return the longest step in seconds, and descriptions of the ten longest ones."""
    lines = file.read_text().splitlines() if file.exists() else []
    ordered = sorted(lines, key=lambda line: -float(line.split()[0]))
    return (float(ordered[0].split()[0]) if ordered else 0.0), ordered[:10]


if __name__ == "__main__":
    _, path, module, *arguments = sys.argv
    Stretches(Path(path)).install()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
