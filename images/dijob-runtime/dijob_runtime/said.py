"""What this package has to say to people, in the container's log and in the job's status."""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """To the container's log."""
    print("dijob:", text, file=sys.stderr, flush=True)


def fail(sentence: str) -> None:
    """End this process with a sentence in its log, and where the job's status finds it."""
    say(sentence)
    log = os.environ.get("DIJOB_TERMINATION_LOG") or "/dev/termination-log"
    if os.access(log, os.W_OK):
        with open(log, "w") as file:
            file.write(sentence)
    sys.exit(1)
