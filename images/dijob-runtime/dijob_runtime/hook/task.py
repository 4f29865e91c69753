"""DI-engine's task (ding/framework/task.py): a process that fails does not end the others. By
itself it tells all others that the task has finished, for whatever reason it leaves
`with task.start()`; they would succeed, and when it starts again, nobody is left.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.hook import progress
from dijob_runtime.hook.distributer import Ended
from dijob_runtime.world import World


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob."""
    if World.read() is not None:
        known: Any = module
        known.Task.__exit__ = _quiet_after_failure(known.Task.__exit__)
        progress.watch()


def _quiet_after_failure(leave: Any) -> Any:
    @wraps(leave)
    def leave_quietly(task: Any, kind: Any, error: Any, trace: Any) -> Any:
        if kind is None or (kind is SystemExit and not getattr(error, "code", error)):
            return leave(task, kind, error, trace)
        if kind is Ended:  # of a loop of the program's own instead of task.run
            leave(task, None, None, None)
            return True
        emit = task.emit
        task.emit = lambda event, *args, **_: emit(event, *args, only_local=True)
        try:
            return leave(task, kind, error, trace)
        finally:
            del task.emit

    return leave_quietly
