"""Lets the launcher of this pod read the stack of this process's main thread.

If a training run makes no progress, the operator asks the launcher for stacks, and the launcher
sends a signal to the main thread (the launcher's stacks/stacks.go). The handler is
faulthandler's C code, so it also works while the process hangs in a library that holds the
interpreter's lock. It writes the stack to a file that all processes of the pod share.
"""

from __future__ import annotations

import faulthandler
import os
import signal

# The launcher sets this variable if it can send stacks to the operator.
FILE = "DIJOB_STACKS"
# A real-time signal that neither Python, DI-engine nor torch uses. The launcher sends it only to
# processes that have a handler for it.
SIGNAL = 60


def answer_requests() -> None:
    """Write the stack of the main thread whenever the launcher asks for it. Without a launcher, or
    if the program has its own handler for the signal, this does nothing.
    """
    path = os.environ.get(FILE)
    if not path:
        return
    try:
        if signal.getsignal(SIGNAL) is signal.SIG_DFL:
            # faulthandler keeps the file open.
            faulthandler.register(SIGNAL, open(path, "ab"), all_threads=False)  # noqa: SIM115
    except (OSError, ValueError, AttributeError):
        pass  # a full disk, or a platform without signals: the training must still run
