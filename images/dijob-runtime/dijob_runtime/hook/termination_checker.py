"""Patch for ding/framework/middleware/functional/termination_checker.py that makes
ddp_termination_checker work without a GPU.

The checker of DI-engine puts its flag on a GPU before rank 0 sends the flag to the other ranks.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable

from dijob_runtime.devices import is_without_gpu
from dijob_runtime.world import PodWorld


def patch(module: ModuleType) -> None:
    """Replace the checker, if this pod has no GPU."""
    if PodWorld.read() is None or not hasattr(module, "ddp_termination_checker"):
        return
    if is_without_gpu():
        known: Any = module
        known.ddp_termination_checker = _make_checker(known)


def _make_checker(module: Any) -> Callable[..., Any]:
    def ddp_termination_checker(
        max_env_step: float | None = None, max_train_iter: float | None = None, rank: int = 0
    ) -> Callable[[Any], None]:
        limits = {"env_step": max_env_step, "train_iter": max_train_iter}

        def check(ctx: Any) -> None:
            import torch

            over = [n for n, most in limits.items() if most is not None and getattr(ctx, n) > most]
            if rank == 0 and over:
                module.logging.info(f"the task ends, because of the maximum of {over[0]}")
            ends = rank == 0 and (bool(over) or module.task.finish)
            flag = torch.tensor([int(ends)])
            module.broadcast(flag, 0)
            module.task.finish = bool(flag.item())

        return check

    return ddp_termination_checker
