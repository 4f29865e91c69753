"""Patch for DI-engine's environment managers (ding/envs/env_manager): a training process counts as
active while it collects or evaluates, even though its iteration does not change.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import ModuleType
from typing import Any

from dijob_runtime.progress import note_activity


def patch(module: ModuleType) -> None:
    """Record each step of each manager that this module defines."""
    for manager in list(vars(module).values()):
        if not isinstance(manager, type) or manager.__module__ != module.__name__:
            continue
        step = vars(manager).get("step")
        if isfunction(step) and hasattr(manager, "launch"):
            known: Any = manager
            known.step = _with_note(step)


def _with_note(usual: Any) -> Any:
    @wraps(usual)
    def step(*args: Any, **kwargs: Any) -> Any:
        note_activity()
        return usual(*args, **kwargs)

    return step
