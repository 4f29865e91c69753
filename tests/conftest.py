"""For all tests."""

import signal

import pytest


@pytest.fixture(scope="session", autouse=True)
def _signals_mean_what_they_say() -> None:
    """Whoever starts the tests in the background (nohup, CI without a terminal) has them ignore these, and a shell can
    never trap what was ignored when it started: the tests about signals would hang."""
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
