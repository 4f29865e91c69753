"""What programs have printed, in one line. Pure."""

from typing import Final

from dijob.api.printed import plain

_MOST: Final = 300


def short(text: str) -> str:
    """A text in one line of bounded length: its beginning."""
    line = " ".join(plain(text).split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"
