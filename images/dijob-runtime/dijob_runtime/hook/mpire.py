"""mpire's workers (mpire/worker.py), which run DI-engine's programs: SIGTERM is not mpire's there.
What the program's modules have set stays, and otherwise ending.py handles it.
"""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any

from dijob_runtime.world import World

RUNNER = "_subprocess_runner"


def patch(module: ModuleType) -> None:
    """Nothing outside a DIJob, nor in a pool of the program's own."""
    known: Any = module
    # Before 2.7 mpire leaves SIGTERM alone.
    usual = getattr(known.AbstractWorker, "_set_signal_handlers", None)
    if World.read() is None or usual is None:
        return

    def set_handlers(worker: Any) -> None:
        before = signal.getsignal(signal.SIGTERM)
        usual(worker)
        if getattr(worker.map_params.func, "__name__", "") == RUNNER and before is not None:
            signal.signal(signal.SIGTERM, before)

    known.AbstractWorker._set_signal_handlers = set_handlers
