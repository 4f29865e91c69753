"""Starts and inspects the user's program and the processes around it, for the tests of the
launcher.
"""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from cluster.waiting import Wait, until_true
from pod.boxes import PID_NAMESPACE

# How long to wait for an observation, and the pause between two attempts (in seconds).
LOOK_SECONDS, TRY_SECONDS = 60.0, 0.005
# How long a process may take to end. A test whose program hangs fails after this time.
END_SECONDS = 60.0
WHERE = pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
# Prints the signals that it receives, one per line, and ends after the first TERM, like a program
# that saves its state. It uses sigwait rather than handlers with a sleep, because Python notices a
# signal that arrives right before it sleeps only after the sleep.
LISTEN = """
import os, signal, sys, time
def say(text):
    os.write(1, f"{text}\\n".encode())
names = ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2")
signals = {getattr(signal, "SIG" + name) for name in names}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
say("ready")
while True:
    number = signal.sigwait(signals)
    say(number.name)
    if number == signal.SIGTERM:
        time.sleep(0.3)
        say("saved")
        sys.exit(7)
"""


def python(text: str, *args: str) -> list[str]:
    """Return a command that runs this program in Python."""
    return ["python3", "-S", "-c", text, *args]  # -S: the search for packages is half of the start


def first_process(process: subprocess.Popen[str], namespace: list[str]) -> int:
    """Return the launcher's process ID in the tests' namespace. With a namespace, it is a child of
    `unshare`.
    """
    if not namespace:
        return process.pid
    return int(until_true("unshare has a child", lambda: children(process.pid))[0])


def children(pid: int) -> list[str]:
    """Return the children of a process, whichever of its threads has started them."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for file in files for child in file.read_text().split()]


def line(process: subprocess.Popen[str], seconds: float = 60.0) -> str:
    """Return the next line that the program writes; "" if it has ended."""
    assert process.stdout
    file, text = process.stdout.fileno(), b""
    while not text.endswith(b"\n"):
        if not select.select([file], [], [], seconds)[0]:
            pytest.fail(f"no line within {seconds:g} s; so far: {text!r}")
        if not (byte := os.read(file, 1)):
            break
        text += byte
    return text.decode().strip()


def end(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """Close stdin, wait until the process ends, and return its exit code and remaining output."""
    out, _ = process.communicate(timeout=END_SECONDS)
    return process.returncode, out.splitlines()


def writer(pipe: Path) -> int | None:
    """Return the writing end of a pipe; None if no process reads the pipe."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def answer(pipe: Path, texts: Sequence[str], *, removed: bool = True) -> None:
    """Write each text to a reader of the pipe, the next one only when the last has been read. The
    pipe is removed with the last text, so that no reader blocks on it. If it is not to be removed,
    the next reader blocks.
    """

    def nobody_reads() -> bool:
        if (end := writer(pipe)) is not None:
            os.close(end)
        return end is None

    for left, text in zip(reversed(range(len(texts))), texts, strict=True):
        end = until_true("somebody looks", lambda: writer(pipe) or 0)
        last = removed and not left
        if last:
            pipe.unlink()
        os.write(end, text.encode())
        os.close(end)
        if not last:
            # Each attempt wakes the reader, which then sleeps for 20 ms. With growing pauses, as in
            # until_true, an attempt would always be followed by the next read.
            wait = Wait("the look is over", LOOK_SECONDS, None, TRY_SECONDS)
            while not nobody_reads():
                wait.again("it reads")
                time.sleep(TRY_SECONDS)
