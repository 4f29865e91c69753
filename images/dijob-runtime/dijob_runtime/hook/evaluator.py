"""Patch for the evaluators of DI-engine's task pipelines
(ding/framework/middleware/functional/evaluator.py): the return of an evaluation is reported as
progress.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dijob_runtime.hook.middleware import wrap_middleware
from dijob_runtime.progress import report


def patch(module: ModuleType) -> None:
    """Wrap the functions that make the middleware."""
    wrap_middleware(module, ("interaction_evaluator", "interaction_evaluator_ttorch"), _with_report)


def _with_report(usual: Any) -> Any:
    def evaluate(ctx: Any) -> Any:
        before = getattr(ctx, "eval_value", None)
        result = usual(ctx)
        value = getattr(ctx, "eval_value", None)
        if value is not None and value is not before:
            report(episode_return=value)
        return result

    return evaluate
