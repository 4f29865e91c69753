"""Patch for mpire's workers (mpire/worker.py), in which DI-engine runs programs: mpire must not
change their handler of SIGTERM. A handler that the program's modules have set stays; otherwise
ending.py sets one.
"""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any

from dijob_runtime.world import PodWorld

RUNNER = "_subprocess_runner"


def patch(module: ModuleType) -> None:
    """Restore SIGTERM's handler after mpire has set its own, but only in DI-engine's workers and
    not in other pools of the program.
    """
    known: Any = module
    # Before 2.7, mpire has no handler of SIGTERM and no such method.
    usual = getattr(known.AbstractWorker, "_set_signal_handlers", None)
    if PodWorld.read() is None or usual is None:
        return

    def set_handlers(worker: Any) -> None:
        before = signal.getsignal(signal.SIGTERM)
        usual(worker)
        if getattr(worker.map_params.func, "__name__", "") == RUNNER and before is not None:
            signal.signal(signal.SIGTERM, before)

    known.AbstractWorker._set_signal_handlers = set_handlers
