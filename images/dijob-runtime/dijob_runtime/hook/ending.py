"""Graceful shutdown on SIGTERM for programs that DI-engine's Parallel runs: the program's `finally`
blocks run, and then its process exits.

Python's default action terminates a process at once and skips these blocks. A pod with several
workers would not terminate at all: DI-engine starts its workers with mpire, and an mpire worker
(2.10, worker.py) exits only when the parent has received the worker's result. SIGTERM goes to all
processes of a pod. So the parent would already have exited, and the workers would wait for it until
they are killed.

With this patch, a worker exits without waiting for its parent. The parent keeps Python's default
action, because it only waits for the workers. If the parent handled SIGTERM, mpire would interrupt
the workers' `finally` blocks after a second. If the program has its own handler, this patch does
not replace it.
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

from dijob_runtime.messages import log_message

EXIT_CODE = 128 + signal.SIGTERM
# Python runs signal handlers only between bytecodes of the main thread. During a call to a C
# library, such as an allreduce with a lost peer, the handler never runs. After this time, the
# process exits without running its `finally` blocks, so that the pod can terminate.
STUCK_SECONDS = 5.0
# How long atexit functions and non-daemon threads may run after the program has returned.
LEAVE_SECONDS = 5.0
PARENT_LOOK_SECONDS = 0.05


def patch(parallel: Any) -> None:
    """Wrap the method of Parallel that runs the program in this process or in a worker."""
    usual = parallel._subprocess_runner.__func__

    # The wrapper must have the same name as the method, because mpire pickles methods by name.
    @wraps(usual)
    def _subprocess_runner(cls: Any, runner_kwargs: dict[str, Any], main_params: Any) -> None:
        ending.begin(in_worker=runner_kwargs.get("n_parallel_workers", 1) > 1)
        try:
            usual(cls, runner_kwargs, main_params)
        finally:
            ending.program_left()

    parallel._subprocess_runner = classmethod(_subprocess_runner)


class ProcessEnding:
    """The state of this process's shutdown. A process has only one such object: `ending`, below."""

    def __init__(self) -> None:
        self._parent: int | None = None  # the parent's process ID; set only in an mpire worker
        self._begun = threading.Event()
        self._wakeup = -1

    def begin(self, in_worker: bool) -> None:
        """Install the handler when a program starts, unless the program has its own."""
        self._parent = os.getppid() if in_worker else None
        # Python allows signal handlers only in the main thread.
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._watch()
            signal.signal(signal.SIGTERM, self._leave)

    def program_left(self) -> None:
        """Make sure that the process exits after the program has returned or raised."""
        if self._parent is not None:
            _in_background(self._end_with, self._parent)
        elif self._begun.is_set():
            _in_background(self._end_behind_main)
        if signal.getsignal(signal.SIGTERM) == self._leave:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def forked(self) -> None:
        """Restore the default action in a child process that the program has forked. The child does
        not run the program, so SIGTERM must terminate the child at once, as it would without this
        patch.
        """
        if signal.getsignal(signal.SIGTERM) in (self._leave, _ignore_signal):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        known = signal.set_wakeup_fd(-1)
        if known != self._wakeup:
            signal.set_wakeup_fd(known)
        self.__init__()  # type: ignore[misc]

    def _leave(self, *_: Any) -> None:
        """Handle SIGTERM: raise SystemExit, which neither `except Exception` nor DI-engine's
        auto_recover catches.
        """
        self._begun.set()
        # Neither a second SIGTERM nor SIGUSR1 may interrupt the `finally` blocks. mpire sends
        # SIGUSR1 to stop a worker when another one has failed. The handler is a function and not
        # SIG_IGN, because child processes inherit SIG_IGN.
        signal.signal(signal.SIGTERM, _ignore_signal)
        if self._parent is not None:
            signal.signal(signal.SIGUSR1, _ignore_signal)
        raise SystemExit(EXIT_CODE)

    def _watch(self) -> None:
        """Start a thread that notices SIGTERM even while the main thread cannot handle it. The C
        part of Python's signal handling writes each signal's number to the wakeup file descriptor.
        """
        if self._wakeup != -1:
            return
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        known = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if known != -1:  # it belongs to the program's own event loop, e.g. asyncio
            signal.set_wakeup_fd(known)
            return
        self._wakeup = writing
        _in_background(self._end_if_stuck, reading)

    def _end_if_stuck(self, reading: int) -> None:
        while signal.SIGTERM not in os.read(reading, 4096):
            pass
        if not self._begun.wait(STUCK_SECONDS) and signal.getsignal(signal.SIGTERM) == self._leave:
            log_message(
                f"WARNING: the main thread did not react to SIGTERM for {STUCK_SECONDS:g} s,"
                " because it is in a call to a C library: this process exits without running its"
                " finally blocks"
            )
            _flush_and_exit()

    def _end_with(self, parent: int) -> None:
        """Exit from a worker whose program has returned. Wait until the parent exits. If
        SIGTERM has arrived, wait for at most LEAVE_SECONDS.
        """
        bound = LEAVE_SECONDS if self._begun.is_set() else float("inf")
        end = time.monotonic() + bound
        while os.getppid() == parent and time.monotonic() < end:
            time.sleep(PARENT_LOOK_SECONDS)
        _flush_and_exit()

    def _end_behind_main(self) -> None:
        """Exit LEAVE_SECONDS after the main thread has ended, even if other threads are still
        running.
        """
        threading.main_thread().join()
        time.sleep(LEAVE_SECONDS)
        _flush_and_exit()


def _ignore_signal(*_: Any) -> None:
    """Handle a signal by doing nothing."""


def _in_background(function: Any, *args: Any) -> None:
    threading.Thread(target=function, args=args, name="dijob-ending", daemon=True).start()


def _flush_and_exit() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # it may be closed
            stream.flush()
    # sys.exit would wait for the threads that keep the process alive.
    os._exit(EXIT_CODE)


ending = ProcessEnding()
os.register_at_fork(after_in_child=lambda: ending.forked())
