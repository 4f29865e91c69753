"""Patch for ding.utils: DistContext is DDPContext.

Several of DI-engine's own programs (dizoo/atari/example/atari_dqn_dist_ddp.py, for example) import
DistContext, which ding.utils provides only if the unpublished library linklink is installed.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from dijob_runtime.messages import log_message
from dijob_runtime.world import PodWorld

NAME = "DistContext"


def patch(module: ModuleType) -> None:
    """Provide the missing name to programs that import it. Other programs are not affected."""
    if PodWorld.read() is None or hasattr(module, NAME) or hasattr(module, "__getattr__"):
        return
    known: Any = module

    def find_attribute(name: str) -> Any:
        if name != NAME:
            raise AttributeError(f"module {known.__name__!r} has no attribute {name!r}")
        log_message("ding.utils has no DistContext, so the program gets DDPContext")
        known.DistContext = known.DDPContext
        return known.DDPContext

    known.__getattr__ = find_attribute
