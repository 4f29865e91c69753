"""Patch for DI-engine's context and model exchangers (ding/framework/middleware/distributer.py).

When the task has finished, the exchangers stop waiting for peers that have already left. Without
the patch, collectors wait for 60 s and a learner waits forever, so the job would never end.

The context exchanger of ding 0.5.3 iterates over a dict. At the same time, the router's thread adds
the fields of a message to this dict, one by one. In rare cases, a rank then fails with "dictionary
changed size during iteration" or "Either ctx.trajectories or ctx.episodes should be not None", or
loses fields. With the patch, each step takes complete messages.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any, Dict

from dijob_runtime.waiting import meter
from dijob_runtime.world import PodWorld

# How long a step still waits for messages after the task has finished. Messages that peers sent
# earlier can arrive during this time, so that the step can be completed.
GRACE_SECONDS = 10.0


class Ended(Exception):
    """The task has finished, and the message that this step waits for will not arrive."""


def patch(module: ModuleType) -> None:
    """Replace the task's run method, the context exchanger's state and put method, and the sleep
    in the exchangers' loops.
    """
    if PodWorld.read() is None:
        return
    known: Any = module
    if hasattr(known, "ContextExchanger"):
        exchanger = known.ContextExchanger
        exchanger._state, exchanger.put = StateField(), _with_lock(exchanger.put)
    known.sleep = wait = Wait(known.task, known.sleep)
    task = type(known.task)
    task.run = _ended_by(task.run, wait)


class ArrivedFields(Dict[str, Any]):
    """The fields that have arrived, and the lock that is held while a message adds its fields."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()

    def items(self) -> Any:
        """Remove and return all fields. So a step gets complete messages. Fields that arrive from
        now on belong to the next step.
        """
        with self.lock:
            taken = list(super().items())
            self.clear()
        return taken


class StateField:
    """The `_state` attribute of a context exchanger. Its value is always the same ArrivedFields
    object.

    After each step, the exchanger assigns an empty dict. This assignment is ignored, because
    `items()` has already emptied the object.
    """

    def __get__(self, exchanger: Any, owner: Any = None) -> ArrivedFields:
        found: ArrivedFields = vars(exchanger).setdefault("_state", ArrivedFields())
        return found

    def __set__(self, exchanger: Any, value: dict[str, Any]) -> None:
        if value:
            self.__get__(exchanger).update(value)


def _with_lock(put: Any) -> Any:
    @wraps(put)
    def put_all(exchanger: Any, payload: Any) -> None:
        with exchanger._state.lock:
            put(exchanger, payload)

    return put_all


class Wait:
    """The sleep function of a loop that waits for other processes.

    The exchangers poll with `sleep`, so this call is the only point at which their loops can be
    interrupted.
    """

    def __init__(self, task: Any, sleep: Any) -> None:
        self._task, self._sleep = task, sleep
        self.ended_at = 0.0

    def __call__(self, seconds: float) -> None:
        """Sleep. Raises Ended if the task finished more than GRACE_SECONDS ago."""
        if not self._task.finish:
            self.ended_at = 0.0
        elif not self.ended_at:
            self.ended_at = time.monotonic()
        elif time.monotonic() - self.ended_at > GRACE_SECONDS:
            raise Ended
        before = time.monotonic()
        self._sleep(seconds)
        meter.add_wait(time.monotonic() - before)


def _ended_by(run: Any, wait: Wait) -> Any:
    @wraps(run)
    def until_ended(task: Any, *args: Any, **kwargs: Any) -> None:
        wait.ended_at = 0.0
        # DI-engine's own loop ends after the step in which the task finishes. Aborting the step
        # here ends the loop in the same way.
        with suppress(Ended):
            run(task, *args, **kwargs)

    return until_ended
