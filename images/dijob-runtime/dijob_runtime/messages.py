"""Messages for users, in the container's log and in the job's status."""

from __future__ import annotations

import os
import sys


def log_message(text: str) -> None:
    """Write a message to the container's log, with the prefix of the launcher's messages."""
    print("dijob:", text, file=sys.stderr, flush=True)


def exit_with_error(sentence: str) -> None:
    """Write a sentence to the log, make it the termination message, and exit with code 1. The
    job's status quotes the termination message.
    """
    log_message(sentence)
    log = os.environ.get("DIJOB_TERMINATION_LOG") or "/dev/termination-log"
    if os.access(log, os.W_OK):  # outside a container the file does not exist
        with open(log, "w") as file:
            file.write(sentence)
    sys.exit(1)
