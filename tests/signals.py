"""Signals in the processes of a test run. Its hook is that of tests/conftest.py."""

import os
import signal
from pathlib import Path
from types import FrameType


def pytest_configure() -> None:
    """Signals mean what they say, in this process and in each of xdist's workers.

    Whoever starts the tests in the background (nohup, CI without a terminal) has them ignore some,
    and a shell can never trap what was ignored when it started: the tests about signals would hang.
    TERM ends a run as Ctrl-C does.
    """
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _as_ctrl_c)


def _as_ctrl_c(number: int, frame: FrameType | None) -> None:
    """As a terminal does: every process of the run is interrupted. xdist itself kills its workers,
    and what these have started would stay.
    """
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            os.kill(int(child), signal.SIGINT)
    raise KeyboardInterrupt
