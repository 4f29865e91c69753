"""Patch for DI-engine's task (ding/framework/task.py): a failed process no longer stops the
others.

DI-engine emits the event for the end of the task whenever a process leaves `with task.start()`. It
does so even if an error is the cause. The others would then succeed, and the failed process would
have no peers after its restart.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.hook import progress
from dijob_runtime.hook.distributer import Ended
from dijob_runtime.world import PodWorld


def patch(module: ModuleType) -> None:
    """Replace `__exit__` of DI-engine's class Task, and watch the log for progress."""
    if PodWorld.read() is not None:
        known: Any = module
        known.Task.__exit__ = _quiet_after_failure(known.Task.__exit__)
        progress.watch_log()


def _quiet_after_failure(leave: Any) -> Any:
    @wraps(leave)
    def leave_quietly(task: Any, kind: Any, error: Any, trace: Any) -> Any:
        if kind is None or (kind is SystemExit and not getattr(error, "code", error)):
            return leave(task, kind, error, trace)
        if kind is Ended:  # only task.run catches Ended, and this program has its own loop
            leave(task, None, None, None)
            return True
        # After a failure, DI-engine's own code runs, but its events stay in this process.
        emit = task.emit
        task.emit = lambda event, *args, **_: emit(event, *args, only_local=True)
        try:
            return leave(task, kind, error, trace)
        finally:
            del task.emit

    return leave_quietly
