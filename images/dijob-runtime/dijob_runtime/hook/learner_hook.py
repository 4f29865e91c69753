"""Patch for LogReduceHook (ding/worker/learner/learner_hook.py), which averages the learner's log
over the ranks of DDP.

DI-engine 0.5.3 moves the values to a GPU, and uses the rank as the GPU's number. Each pod numbers
its GPUs from 0, so a pod other than the first usually has no GPU with that number. In a pod without
GPUs, the move always fails. With this patch, the values are on the current device.

LogReduceHook also rejects NumPy arrays, but LightZero's MuZero puts such arrays into the log. With
this patch, arrays are averaged like tensors.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from dijob_runtime.devices import find_device
from dijob_runtime.world import PodWorld


def patch(module: ModuleType) -> None:
    """Patch the function that gives LogReduceHook its device, and convert the values that the hook
    receives. No other code in the patched module calls the function, and later versions of
    DI-engine do not import it into that module.
    """
    if PodWorld.read() is None:
        return
    known: Any = module
    if hasattr(known, "get_rank"):
        known.get_rank = find_device
    usual = known.LogReduceHook.__call__

    @wraps(usual)
    def reduce_log(hook: Any, engine: Any) -> None:
        engine.log_buffer = _convert_arrays(engine.log_buffer)
        usual(hook, engine)

    known.LogReduceHook.__call__ = reduce_log


def _convert_arrays(value: Any) -> Any:
    """Return a copy of the log with tensors in place of NumPy arrays."""
    import numpy as np
    import torch

    if isinstance(value, dict):
        return {name: _convert_arrays(each) for name, each in value.items()}
    return torch.as_tensor(value) if isinstance(value, np.ndarray) else value
