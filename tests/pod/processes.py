"""The user's program and the processes round it, as the tests of the launcher look at them."""

import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from cluster.waiting import Wait, until_true
from pod.boxes import PID_NAMESPACE

# How long a look may take, and the pause between two tries (both seconds).
LOOK_SECONDS, TRY_SECONDS = 60.0, 0.005
WHERE = pytest.mark.parametrize("namespace", [[], PID_NAMESPACE], ids=["child", "PID-1"])
# Says which signals came, a line each, and ends after the first TERM as a program that saves its
# state would. sigwait, not handlers and a sleep: Python sees a signal that comes right before it
# sleeps only when it wakes up.
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
    """A command that is this program in Python."""
    return ["python3", "-S", "-c", text, *args]  # -S: half of the start is the search for packages


def first_process(process: subprocess.Popen[str], namespace: list[str]) -> int:
    """The pid of launch as seen from here: below `unshare` when there is a namespace."""
    if not namespace:
        return process.pid
    return int(until_true("unshare has a child", lambda: children(process.pid))[0])


def children(pid: int) -> list[str]:
    """The children of a process, whichever of its threads has started them."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for file in files for child in file.read_text().split()]


def line(process: subprocess.Popen[str], seconds: float = 60.0) -> str:
    """The next line that the program writes; "" when it has ended without."""
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
    """Exit code and the lines left of a process that ends, or does so when its stdin is closed."""
    out, _ = process.communicate(timeout=10)
    return process.returncode, out.splitlines()


def writer(pipe: Path) -> int | None:
    """The end of a pipe that is written to; None if no process reads it."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None


def answer(pipe: Path, texts: Sequence[str]) -> None:
    """Give each text to somebody who reads the pipe, the next when that one has read. The pipe is
    gone with the last, so that nobody waits for it.
    """

    def nobody_reads() -> bool:
        if (end := writer(pipe)) is not None:
            os.close(end)
        return end is None

    for left, text in zip(reversed(range(len(texts))), texts, strict=True):
        end = until_true("somebody looks", lambda: writer(pipe) or 0)
        if not left:
            pipe.unlink()
        os.write(end, text.encode())
        os.close(end)
        if left:
            # Each try wakes who reads, which then naps for 20 ms: with pauses that grow beyond
            # that, as those of until_true do, a try would always find the next look.
            wait = Wait("the look is over", LOOK_SECONDS, None, TRY_SECONDS)
            while not nobody_reads():
                wait.again("it reads")
                time.sleep(TRY_SECONDS)
