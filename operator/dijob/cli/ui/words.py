"""Makes text from the cluster safe for the page. No I/O."""

from typing import Any, Final

from dijob.api.printed import one_line, plain

_MOST: Final = 300


def short(text: str) -> str:
    """Return the beginning of a text, as one line."""
    line = one_line(text)
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def safe(data: Any) -> Any:
    """Return data with each text cleaned of characters that reorder or hide other characters."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, dict):
        return {safe(key): safe(value) for key, value in data.items()}
    return [safe(item) for item in data] if isinstance(data, list | tuple) else data
