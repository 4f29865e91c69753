"""Remedies for container errors that name the operator's part of a pod instead of the cause.

The launcher and the gate run before the user's program, so the cluster reports an error for them
even if the template causes it. Each remedy names the field of the template or the spec.
"""

import re
from typing import Final

# Init systems that refuse to run as any other process: s6-overlay, runit, sysvinit, systemd.
_NOT_PROCESS_1: Final = re.compile(
    r"\b(?:as|be|not|needs|requires)(?: the)? (?:pid|process(?: (?:no\.?|number|id))?) ?#?1\b"
    r"|\(PID 1\)",
    re.IGNORECASE,
)
_REMEDIES: Final = (
    (_NOT_PROCESS_1, 'set launcher: "Off", since the launcher runs as process 1'),
    (
        re.compile(r"\bexec\b.*: argument list too long"),
        "too large for Linux: remove enableServiceLinks: true from the template, which adds"
        " variables for each Service",
    ),
    (
        re.compile(r"\bexec\b.*: invalid argument"),
        "a NUL character in command, args or env of the template",
    ),
)


def find_remedy(text: str) -> str:
    """Return the remedy for an error with this text; "" if none is known."""
    return next((what for pattern, what in _REMEDIES if pattern.search(text)), "")


def with_remedy(text: str) -> str:
    """Return the text, followed by its remedy unless the text already contains it."""
    known = find_remedy(text)
    return text if not known or known in text else f"{text} ({known})"
