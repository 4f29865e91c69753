"""What programs have printed, as others may see it: without what only a terminal understands."""

import re
from typing import Final

# Colours and the like (ECMA-48), and control characters, but for tabs and ends of lines.
_ESCAPES: Final = r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])"
_UNSEEN: Final = re.compile(rf"{_ESCAPES}|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def plain(text: str) -> str:
    """A text without colours, control characters and padding."""
    return _UNSEEN.sub("", text).rstrip()
