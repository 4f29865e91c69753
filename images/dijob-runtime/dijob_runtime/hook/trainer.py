"""Patch for the trainers of DI-engine's task pipelines
(ding/framework/middleware/functional/trainer.py): each training step is reported as progress.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dijob_runtime.hook.middleware import wrap_middleware
from dijob_runtime.progress import note_training


def patch(module: ModuleType) -> None:
    """Wrap the functions that make the middleware."""
    wrap_middleware(module, ("trainer", "multistep_trainer"), _with_report)


def _with_report(usual: Any) -> Any:
    def train(ctx: Any) -> Any:
        result = usual(ctx)
        if getattr(ctx, "train_data", None) is not None:
            note_training(ctx.train_iter, getattr(ctx, "env_step", None))
        return result

    return train
