"""Messages for users, in the container's log and in the job's status."""

from __future__ import annotations

import os
import sys


def log_message(text: str) -> None:
    """Write a message to the container's log, with the prefix of the launcher's messages."""
    print("dijob:", text, file=sys.stderr, flush=True)


def exit_with_error(sentence: str) -> None:
    """Exit with code 1, after writing a message to the log and to the termination message, which
    the job's status quotes.
    """
    log_message(sentence)
    log = os.environ.get("DIJOB_TERMINATION_LOG") or "/dev/termination-log"
    if os.access(log, os.W_OK):  # outside a container the file does not exist
        with open(log, "w") as file:
            file.write(sentence)
    sys.exit(1)
