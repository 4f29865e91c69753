"""Text from a cluster, made safe for the page. Pure."""

from typing import Any, Final

from dijob.api.printed import one_line, plain

_MOST: Final = 300


def short(text: str) -> str:
    """A text in one line of bounded length: its beginning."""
    line = one_line(text)
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def safe(data: Any) -> Any:
    """Data for the page, each text without what reorders or hides a part of it."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, dict):
        return {safe(key): safe(value) for key, value in data.items()}
    return [safe(item) for item in data] if isinstance(data, list | tuple) else data
