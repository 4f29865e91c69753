"""Numbers in text that anybody may have written."""

from typing import Final

DIGITS: Final = 15


def natural(text: str, digits: int = DIGITS) -> int | None:
    """The number that plain digits say; None where the text is something else, or has more of them.

    Neither `isdigit` nor `int` will do: the one takes "²", which the other does not; that takes "1_0", and refuses
    thousands of digits.
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) <= digits else None
