"""Patch for the trainers of DI-engine's task pipelines
(ding/framework/middleware/functional/trainer.py): each training step is reported as progress.
"""

from __future__ import annotations

from functools import wraps
from inspect import isfunction
from types import ModuleType
from typing import Any

from dijob_runtime.progress import note_training


def patch(module: ModuleType) -> None:
    """Wrap the functions that make the middleware."""
    for name in ("trainer", "multistep_trainer"):
        if hasattr(module, name):
            setattr(module, name, _with_report(getattr(module, name)))


def _with_report(make: Any) -> Any:
    @wraps(make)
    def made(*args: Any, **kwargs: Any) -> Any:
        usual = make(*args, **kwargs)
        # In a process without the role learner, the middleware is an object that does nothing.
        if not isfunction(usual):
            return usual

        @wraps(usual)
        def train(ctx: Any) -> Any:
            result = usual(ctx)
            if getattr(ctx, "train_data", None) is not None:
                note_training(ctx.train_iter, getattr(ctx, "env_step", None))
            return result

        return train

    return made
