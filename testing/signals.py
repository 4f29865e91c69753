"""Signal handling in the processes of a test run: a pytest hook that tests/conftest.py imports."""

import os
import signal
from pathlib import Path
from types import FrameType


def pytest_configure() -> None:
    """Reset the handling of signals in this process and in each of xdist's workers.

    In the background (nohup, CI without a terminal), some signals are ignored, and a shell cannot
    trap a signal that was ignored when it started. The tests about signals would hang. SIGTERM ends
    a run as Ctrl-C does.
    """
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _as_ctrl_c)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """Interrupt this process and its children, as a terminal does. Otherwise, xdist would kill its
    workers, and their child processes would remain.
    """
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            os.kill(int(child), signal.SIGINT)
    raise KeyboardInterrupt
