"""DI-engine's exchangers of contexts and models (ding/framework/middleware/distributer.py): once
the task has been ended, they wait no longer for those who have gone. By themselves they wait 60 s,
a learner's for ever.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.world import World

# So long what is on its way may still come, so that the last step is a whole one.
GRACE_SECONDS = 10.0


class Ended(Exception):
    """The task has been ended, and what this step waits for does not come."""


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob."""
    if World.read() is None:
        return
    known: Any = module
    known.sleep = wait = Wait(known.task, known.sleep)
    task = type(known.task)
    task.run = _ended_by(task.run, wait)


class Wait:
    """The sleep of a loop that waits for others."""

    def __init__(self, task: Any, sleep: Any) -> None:
        self._task, self._sleep = task, sleep
        self.ended_at = 0.0

    def __call__(self, seconds: float) -> None:
        """Sleep; Ended where the task was ended some time ago."""
        if not self._task.finish:
            self.ended_at = 0.0
        elif not self.ended_at:
            self.ended_at = time.monotonic()
        elif time.monotonic() - self.ended_at > GRACE_SECONDS:
            raise Ended
        self._sleep(seconds)


def _ended_by(run: Any, wait: Wait) -> Any:
    @wraps(run)
    def until_ended(task: Any, *args: Any, **kwargs: Any) -> None:
        wait.ended_at = 0.0
        with suppress(Ended):  # DI-engine's own loop ends behind the step in which it sees the end
            run(task, *args, **kwargs)

    return until_ended
