"""What to do about ends of containers whose own words name the operator's part of the pod, and not
the cause.

The launcher and the init containers stand before the user's program, so the cluster blames them for
what the template says. Each remedy names the field of the template or the spec.
"""

import re
from typing import Final

# An init system that refuses to be any other process: s6-overlay, runit, sysvinit, systemd.
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


def remedy(text: str) -> str:
    """What to do about an end with these words; "" if that is not known."""
    return next((what for pattern, what in _REMEDIES if pattern.search(text)), "")


def with_remedy(text: str) -> str:
    """The text, followed by what to do unless it says so already."""
    known = remedy(text)
    return text if not known or known in text else f"{text} ({known})"
