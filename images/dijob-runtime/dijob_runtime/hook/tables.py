"""Patch for DI-engine's loggers (ding/utils/log_helper.py): the return of an evaluation is reported
as progress.

The evaluators of DI-engine and of LightZero pass their results to the logger as a dict, which the
logger formats as a table. So the values need not be parsed from the text.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.progress import report

# The names under which evaluators report the mean return: those of ding 0.5, and other names.
RETURNS = ("reward_mean", "eval_episode_return_mean", "eval_episode_return")


def patch(module: ModuleType) -> None:
    """Read each table that a logger formats."""
    factory: Any = getattr(module, "LoggerFactory", None)
    for name in ("get_tabulate_vars", "get_tabulate_vars_hor"):
        if hasattr(factory, name):
            setattr(factory, name, staticmethod(_with_report(getattr(factory, name))))


def _with_report(usual: Any) -> Any:
    @wraps(usual)
    def get_table(variables: Any, *args: Any, **kwargs: Any) -> Any:
        # Collectors log tables without an iteration.
        if isinstance(variables, dict) and "train_iter" in variables:
            found = next((variables[name] for name in RETURNS if name in variables), None)
            report(episode_return=found)
        return usual(variables, *args, **kwargs)

    return get_table
