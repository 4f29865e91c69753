"""Shortens the stack of a program's main thread to its most informative frames.

The stack is in the format that Python's faulthandler writes. Each frame is a line `File "PATH",
line NUMBER in FUNCTION`, and the innermost frame comes first. A program can write other text to
the file that contains the stack. So all lines that do not have this format are ignored.
"""

import re
from typing import Final

_FRAME: Final = re.compile(r'^ *File "([^"]{1,1024})", line (\d{1,9}) in (.{1,200})$', re.MULTILINE)
# Paths of libraries. The innermost frames of libraries show what the program waits for, and the
# innermost frame of the user's code shows where it waits.
_LIBRARY: Final = re.compile(r"/(site|dist)-packages/|/lib(64)?/python\d|^<frozen ")
# The number of innermost frames that are shown, and the maximum length of each name.
INNERMOST: Final = 3
MOST_NAME: Final = 40
MOST_CHARACTERS: Final = 240


def shorten_stack(text: str) -> str:
    """Return the innermost frames in one line, such as "wait (threading.py:327) < get
    (queue.py:180) < main (train.py:12)". If all of them are in libraries, the innermost frame of
    the user's code follows. If the text is not a stack, the result says so.
    """
    frames = [match.groups() for match in _FRAME.finditer(text)]
    if not frames:
        return "an unreadable stack"
    shown = frames[:INNERMOST]
    if all(_LIBRARY.search(path) for path, _, _ in shown):
        rest = frames[INNERMOST:]
        own = next((at for at, frame in enumerate(rest) if not _LIBRARY.search(frame[0])), None)
        if own is not None:
            shown = [*shown, *([("...", "", "")] if own else []), rest[own]]
    words = [_describe(*frame) for frame in shown]
    return " < ".join(words)[:MOST_CHARACTERS]


def _describe(path: str, line: str, function: str) -> str:
    if not function:
        return path
    name = path.replace("\\", "/").rpartition("/")[2]
    return f"{function[:MOST_NAME]} ({name[:MOST_NAME]}:{line})"
