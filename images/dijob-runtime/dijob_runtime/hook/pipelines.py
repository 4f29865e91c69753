"""Patch for DI-engine's task pipelines (trainer.py and evaluator.py in
ding/framework/middleware/functional): each training step and the return of each evaluation are
reported as progress.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import ModuleType
from typing import Any, Callable

from dijob_runtime.progress import note_training, report


def patch(module: ModuleType) -> None:
    """Wrap the middleware that the functions of this module return. A version of DI-engine may lack
    some of the functions.
    """
    for name, wrap in WRAPPERS.items():
        if hasattr(module, name):
            setattr(module, name, _wrap_result(getattr(module, name), wrap))


def _wrap_result(make: Any, wrap: Callable[[Any], Any]) -> Any:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        usual = make(*args, **kwargs)
        # In a process that does not have the middleware's role, the middleware is an object that
        # does nothing.
        return wraps(usual)(wrap(usual)) if isfunction(usual) else usual

    return made


def _report_training(usual: Any) -> Any:
    def train(ctx: Any) -> Any:
        result = usual(ctx)
        if getattr(ctx, "train_data", None) is not None:
            note_training(ctx.train_iter, getattr(ctx, "env_step", None))
        return result

    return train


def _report_evaluation(usual: Any) -> Any:
    def evaluate(ctx: Any) -> Any:
        before = getattr(ctx, "eval_value", None)
        result = usual(ctx)
        value = getattr(ctx, "eval_value", None)
        if value is not None and value is not before:
            report(episode_return=value)
        return result

    return evaluate


# The functions that return middleware, each with the wrapper for its result.
WRAPPERS = {
    "trainer": _report_training,
    "multistep_trainer": _report_training,
    "interaction_evaluator": _report_evaluation,
    "interaction_evaluator_ttorch": _report_evaluation,
}
