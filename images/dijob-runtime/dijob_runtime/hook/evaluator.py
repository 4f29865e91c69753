"""Patch for the evaluators of DI-engine's task pipelines
(ding/framework/middleware/functional/evaluator.py): the return of an evaluation is reported as
progress.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import ModuleType
from typing import Any

from dijob_runtime.progress import report


def patch(module: ModuleType) -> None:
    """Wrap the functions that make the middleware."""
    for name in ("interaction_evaluator", "interaction_evaluator_ttorch"):
        if hasattr(module, name):
            setattr(module, name, _with_report(getattr(module, name)))


def _with_report(make: Any) -> Any:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        usual = make(*args, **kwargs)
        # In a process without the role evaluator, the middleware is an object that does nothing.
        if not isfunction(usual):
            return usual

        @wraps(usual)
        def evaluate(ctx: Any) -> Any:
            before = getattr(ctx, "eval_value", None)
            result = usual(ctx)
            value = getattr(ctx, "eval_value", None)
            if value is not None and value is not before:
                report(episode_return=value)
            return result

        return evaluate

    return made
