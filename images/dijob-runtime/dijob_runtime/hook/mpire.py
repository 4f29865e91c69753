"""Patch for mpire's workers (mpire/worker.py), in which DI-engine runs programs: it prevents mpire
from changing the SIGTERM handler of a worker. If the program's modules have set a handler, it is
kept; otherwise ending.py sets one.
"""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any

from dijob_runtime.world import PodWorld

RUNNER = "_subprocess_runner"


def patch(module: ModuleType) -> None:
    """Restore the SIGTERM handler after mpire has set its own. This applies only to DI-engine's
    workers, not to the program's other pools.
    """
    known: Any = module
    # Versions of mpire before 2.7 set no SIGTERM handler and do not have this method.
    usual = getattr(known.AbstractWorker, "_set_signal_handlers", None)
    if PodWorld.read() is None or usual is None:
        return

    def set_handlers(worker: Any) -> None:
        before = signal.getsignal(signal.SIGTERM)
        usual(worker)
        if getattr(worker.map_params.func, "__name__", "") == RUNNER and before is not None:
            signal.signal(signal.SIGTERM, before)

    known.AbstractWorker._set_signal_handlers = set_handlers
