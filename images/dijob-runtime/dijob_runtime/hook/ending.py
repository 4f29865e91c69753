"""SIGTERM: a program that DI-engine's Parallel runs executes its `finally` blocks, and then its
process ends.

Python's default action ends a process at once and skips them. With several workers a pod did not
end at all: DI-engine starts its workers with mpire, and a worker of mpire (2.10, worker.py) ends
only when its parent has received its result. SIGTERM goes to all processes of a pod, so the parent
was gone, and the worker waited for it until it was killed.

Here a worker ends without its parent. The parent keeps Python's default: it only waits for the
workers, and if it unwound, mpire would interrupt their `finally` blocks after a second. A handler
of the program's own always wins.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import wraps
from typing import Any

from dijob_runtime.said import say

EXIT_CODE = 128 + signal.SIGTERM
# A main thread in a call of a C library (an allreduce whose peer is lost) sees no signal before the
# call returns. After this time the process ends without its `finally` blocks.
STUCK_SECONDS = 5.0
# atexit functions, and threads that are no daemons, have this long when the program is left.
LEAVE_SECONDS = 5.0
PARENT_LOOK_SECONDS = 0.05


def patch(parallel: Any) -> None:
    """Around each program, in the process that runs it."""
    usual = parallel._subprocess_runner.__func__

    # mpire hands the method to its workers by its name.
    @wraps(usual)
    def _subprocess_runner(cls: Any, runner_kwargs: dict[str, Any], main_params: Any) -> None:
        ending.begin(in_worker=runner_kwargs.get("n_parallel_workers", 1) > 1)
        try:
            usual(cls, runner_kwargs, main_params)
        finally:
            ending.program_left()

    parallel._subprocess_runner = classmethod(_subprocess_runner)


class Ending:
    """How this process ends on SIGTERM."""

    def __init__(self) -> None:
        self._parent: int | None = None  # of a worker
        self._begun = threading.Event()
        self._wakeup = -1

    def begin(self, in_worker: bool) -> None:
        """A program begins. Handle SIGTERM, unless the program does so itself."""
        self._parent = os.getppid() if in_worker else None
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._watch()
            signal.signal(signal.SIGTERM, self._leave)

    def program_left(self) -> None:
        """The program has been left, for whatever reason: nothing may hold the process now."""
        if self._parent is not None:
            _in_background(self._end_with, self._parent)
        elif self._begun.is_set():
            _in_background(self._end_behind_main)
        if signal.getsignal(signal.SIGTERM) == self._leave:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def forked(self) -> None:
        """In a child that the program has forked: SIGTERM has its default action there."""
        if signal.getsignal(signal.SIGTERM) in (self._leave, _ignore):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        known = signal.set_wakeup_fd(-1)
        if known != self._wakeup:
            signal.set_wakeup_fd(known)
        self.__init__()  # type: ignore[misc]

    def _leave(self, *_: Any) -> None:
        """SIGTERM's handler. SystemExit: `except Exception` and DI-engine's auto_recover pass it
        on.
        """
        self._begun.set()
        # Nothing interrupts the `finally` blocks: no second SIGTERM, and no SIGUSR1, by which mpire
        # stops a worker when another one has failed. Children would inherit SIG_IGN.
        signal.signal(signal.SIGTERM, _ignore)
        if self._parent is not None:
            signal.signal(signal.SIGUSR1, _ignore)
        raise SystemExit(EXIT_CODE)

    def _watch(self) -> None:
        """Let a thread know of SIGTERM at once, also if the main thread cannot handle it."""
        if self._wakeup != -1:
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        known = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if known != -1:  # the program's own event loop needs it
            signal.set_wakeup_fd(known)
            return
        self._wakeup = writing
        _in_background(self._end_if_stuck, reading)

    def _end_if_stuck(self, reading: int) -> None:
        while signal.SIGTERM not in os.read(reading, 4096):
            pass
        if not self._begun.wait(STUCK_SECONDS) and signal.getsignal(signal.SIGTERM) == self._leave:
            say(
                f"WARNING: the main thread did not react to SIGTERM for {STUCK_SECONDS:g} s,"
                " because it is in a call to a C library: this process exits without running its"
                " finally blocks"
            )
            _end()

    def _end_with(self, parent: int) -> None:
        """A worker whose program is left ends with its parent, and soon after SIGTERM."""
        bound = LEAVE_SECONDS if self._begun.is_set() else float("inf")
        end = time.monotonic() + bound
        while os.getppid() == parent and time.monotonic() < end:
            time.sleep(PARENT_LOOK_SECONDS)
        _end()

    def _end_behind_main(self) -> None:
        """What the main thread has started holds the process no longer than LEAVE_SECONDS."""
        threading.main_thread().join()
        time.sleep(LEAVE_SECONDS)
        _end()


def _ignore(*_: Any) -> None:
    """A signal's handler."""


def _in_background(function: Any, *args: Any) -> None:
    threading.Thread(target=function, args=args, name="dijob-ending", daemon=True).start()


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed
            stream.flush()
    os._exit(EXIT_CODE)


ending = Ending()
os.register_at_fork(after_in_child=lambda: ending.forked())
