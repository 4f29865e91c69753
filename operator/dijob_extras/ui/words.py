"""Makes text from the cluster safe for the page. No I/O."""

from typing import Any, Final

from dijob.api.printed import one_line, plain_text

_MOST: Final = 300


def shorten_text(text: str) -> str:
    """Return the beginning of a text, as one line."""
    line = one_line(text)
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def clean_texts(data: Any) -> Any:
    """Return data with each text cleaned of characters that reorder or hide other characters."""
    if isinstance(data, str):
        return plain_text(data)
    if isinstance(data, dict):
        return {clean_texts(key): clean_texts(value) for key, value in data.items()}
    return [clean_texts(item) for item in data] if isinstance(data, list | tuple) else data
