"""Patch for the learner of DI-engine's serial, DDP and offline configurations
(ding/worker/learner/base_learner.py), which LightZero uses as well: each training step is reported
as progress.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.progress import note_training


def patch(module: ModuleType) -> None:
    """Report the learner's iteration after each call of its method `train`."""
    learner: Any = getattr(module, "BaseLearner", None)
    if learner is None:
        return
    usual = learner.train

    @wraps(usual)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = usual(self, *args, **kwargs)
        note_training(getattr(self, "train_iter", None), getattr(self, "collector_envstep", None))
        return result

    learner.train = train
