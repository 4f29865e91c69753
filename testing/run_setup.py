"""How the processes of a test run are set up: a pytest hook that tests/conftest.py imports."""

import os
import signal
from pathlib import Path
from types import FrameType

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Set up this process, or one of xdist's workers."""
    _reset_signals()
    # Programs that a test starts import the same packages as the test. make sets the same folders.
    folders = config.getini("pythonpath")
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(map(str, folders)))


def _reset_signals() -> None:
    """Reset the handling of signals.

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
