"""Reports the training's progress to the launcher of this pod, which sends it to the operator.

If the operator has an HTTP server, the progress is reported to this server, too.

Reporting must never disrupt the training, so no function in this module blocks or raises. For the
launcher, a thread in each process writes the newest values to the process's own small file. A
process can write its file even if no other process is running, and a slow disk delays only the
thread.
"""

from __future__ import annotations

import atexit
import json
import math
import operator
import os
import threading
import time
from contextlib import suppress
from multiprocessing.util import Finalize
from typing import Any, SupportsFloat

from dijob_runtime import server
from dijob_runtime.waiting import meter

# The launcher sets this variable if it can send progress to the operator. Each file's path is
# this value, a hyphen and the process ID (the launcher's progress/progress.go).
FILES = "DIJOB_PROGRESS"
# The minimum interval between two writes of a file.
WRITE_SECONDS = 1.0
# The largest count that the operator accepts. JSON readers can represent it exactly.
MOST = 2**53
COUNTS = ("iteration", "env_step")
# The names of the values in the file. The job's status uses the same names.
KEYS = {
    "iteration": "iteration",
    "env_step": "envStep",
    "episode_return": "episodeReturn",
    "signal": "signal",
}


def report(
    iteration: SupportsFloat | None = None,
    env_step: SupportsFloat | None = None,
    episode_return: SupportsFloat | None = None,
    signal: SupportsFloat | None = None,
) -> None:
    """Report the training's progress, for `kubectl get dijobs` and the job's status.

    `signal` is any number for an autoscaler (docs/progress.md).

    You can call this function as often as you like. It returns at once, and threads pass on the
    newest values. If neither the launcher nor the server accepts reports, it does nothing. A
    failure is logged once on stderr, and the program continues. If a value is not a finite number,
    this is logged once, and only the other values are reported.
    """
    if not (os.environ.get(FILES) or os.environ.get(server.URL)):
        return
    given = {
        "iteration": iteration,
        "env_step": env_step,
        "episode_return": episode_return,
        "signal": signal,
    }
    news = {}
    for name, value in given.items():
        if value is not None:
            try:
                news[name] = _check_figure(name, value)
            except Exception as error:  # a tensor's own conversion may raise anything
                server.complain(name, error)
    if news:
        if os.environ.get(FILES):
            _file.add(news)
        if os.environ.get(server.URL):
            server.post_progress(news)


def note_training(iteration: Any, env_step: Any) -> None:
    """Report that this process has trained. Collecting and evaluating in this process then count
    as activity.
    """
    meter.trains = True
    known = env_step if isinstance(env_step, (int, float)) and env_step >= 0 else None
    report(iteration=iteration, env_step=known)


def note_activity() -> None:
    """Record that a training process is collecting or evaluating. The values stay the same."""
    if meter.trains:
        _file.moved = time.time()
        _file.fresh = True


def _check_figure(name: str, value: Any) -> float:
    """Return the value in the form that the operator accepts: a finite number, or an integer for a
    count.

    Raises ValueError if the number is out of range or not finite, and any exception that the
    value's own conversion raises.
    """
    try:
        number: float = operator.index(value)
    except TypeError:
        number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    if name not in COUNTS:
        return number
    if not 0 <= number <= MOST:
        raise ValueError(f"{number} is not between 0 and 2^53")
    return int(number)


class _ProgressFile:
    """The file through which this process reports to the launcher. A forked process has its own
    file.

    `moved` is a time on the node's clock: when the progress last changed, or when a training
    process last collected or evaluated.
    """

    def __init__(self) -> None:
        # The lock is reentrant, because a signal handler may report while its own thread holds the
        # lock.
        self._lock = threading.RLock()
        self._writing = threading.Lock()
        self._values: dict[str, Any] = {}
        self._pid = os.getpid()
        self._started = False
        self.moved = 0.0
        self.fresh = False

    def add(self, news: dict[str, Any]) -> None:
        """Store new values. The first call starts the thread that writes them."""
        with self._lock:
            if any(self._values.get(name) != news[name] for name in news):
                self.moved = time.time()
            self._values.update(news)
            self.fresh = True
            if self._started:
                return
            self._started = True
        # The finalizer is needed for Python before 3.13. In these versions, a process that was
        # forked by multiprocessing runs finalizers, but no atexit functions.
        atexit.register(self.write)
        Finalize(None, self.write, exitpriority=0)
        # If no thread can be started, the newest values are written when the process exits.
        with suppress(RuntimeError):
            threading.Thread(target=self._run, name="dijob-progress", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.write()
            time.sleep(WRITE_SECONDS)

    def write(self) -> None:
        """Write the newest values, unless the file already has them. When the process exits, this
        also waits for a write that the thread has already begun.
        """
        prefix = os.environ.get(FILES)
        if not prefix or self._pid != os.getpid():
            return  # a fork has copied this object with its lock, which may never be released
        with self._writing:
            try:
                self._write_to(f"{prefix}-{self._pid}")
            except Exception as error:  # a failure must end neither the thread nor the program
                server.complain("progress to the launcher", error)

    def _write_to(self, path: str) -> None:
        with self._lock:
            measured = meter.measure()
            if not (self.fresh or measured):
                return
            self.fresh = False
            known: dict[str, Any] = {KEYS[name]: v for name, v in self._values.items()}
            known.update(meter.values)
            known["moved"] = self.moved
        with open(path + ".new", "w") as file:
            json.dump(known, file)
        os.replace(path + ".new", path)


_file = _ProgressFile()


def _start_file() -> None:
    global _file
    _file = _ProgressFile()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_file)
