"""Parses numbers from text that the operator does not control."""

from typing import Final

DIGITS: Final = 15


def parse_natural(text: str, digits: int = DIGITS) -> int | None:
    """Return the number in a string of at most `digits` ASCII digits; None for any other string.

    No built-in check is strict enough: `isdigit` accepts "²", which `int` rejects. `int` accepts
    "1_0", and raises an error for thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
