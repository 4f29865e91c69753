"""Numbers in text from unknown sources."""

from typing import Final

DIGITS: Final = 15


def natural(text: str, digits: int = DIGITS) -> int | None:
    """The number in plain digits; None where the text is something else, or has more digits.

    `isdigit` alone accepts "²", at which `int` fails; `int` accepts "1_0", and fails at thousands
    of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
