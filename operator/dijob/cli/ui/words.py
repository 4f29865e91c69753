"""What programs have printed, as it is shown: without what only a terminal understands. Pure."""

import re
from typing import Final

# Colours and the like (ECMA-48).
_ESCAPES: Final = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])")
_MOST: Final = 300


def plain(text: str) -> str:
    """A text without colours and padding."""
    return _ESCAPES.sub("", text).rstrip()


def short(text: str) -> str:
    """A text in one line of bounded length: its beginning."""
    line = " ".join(plain(text).split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
