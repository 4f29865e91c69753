"""Patch for DI-engine's DDP functions (ding/utils/pytorch_ddp_dist_helper.py) that makes them
work in pods without a GPU as well.

dist_init requests the NCCL backend, and then divides by the number of GPUs. DDPContext calls
dist_init. reduce_data and allreduce_data copy a number to a GPU before they combine the numbers of
all ranks.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from numbers import Integral, Number
from types import ModuleType
from typing import Any, Callable

from dijob_runtime.devices import is_without_gpu
from dijob_runtime.messages import log_message
from dijob_runtime.world import PodWorld

NOTE = (
    "this pod has no GPU, so DI-engine's dist_init uses gloo instead of nccl. All ranks that train"
    " together must be without a GPU"
)


def patch(module: ModuleType) -> None:
    """Replace dist_init, reduce_data, allreduce_data and synchronize, if this pod has no GPU."""
    if PodWorld.read() is None or not is_without_gpu():
        return
    known: Any = module
    known.dist_init = _on_cpu(known.dist_init, known)
    known.allreduce_data = _with_tensors(known.allreduce_data)
    known.reduce_data = _with_tensors(known.reduce_data)
    known.synchronize = _do_nothing


def _on_cpu(usual: Callable[..., Any], module: Any) -> Callable[..., Any]:
    @wraps(usual)
    def dist_init(backend: str = "nccl", *args: Any, **kwargs: Any) -> Any:
        if backend == "nccl":
            log_message(NOTE)
            backend = "gloo"
        # The last step of DI-engine's dist_init, which selects GPU number `rank % GPUs`, raises
        # this error. By then, the process group exists.
        with suppress(ZeroDivisionError):
            return usual(backend, *args, **kwargs)
        return module.get_rank(), module.get_world_size()

    return dist_init


def _with_tensors(usual: Callable[..., Any]) -> Callable[..., Any]:
    """Pass a number to DI-engine's function as a tensor on the CPU.

    The type of the tensor is the same on all ranks; otherwise gloo would abort the process.
    DI-engine itself passes numbers of different types. For example, its collectors add up the
    durations of the episodes of all ranks. The value is the integer 0 on ranks without an episode,
    and a float on the other ranks.
    """

    @wraps(usual)
    def reduce_on_cpu(x: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        if not isinstance(x, Number):
            return usual(x, *args, **kwargs)
        given = torch.as_tensor([x], dtype=torch.float64)
        result = usual(given, *args, **kwargs).item()
        return int(result) if isinstance(x, Integral) and result.is_integer() else result

    return reduce_on_cpu


def _do_nothing() -> None:
    """Without a GPU, there is no work to wait for."""
