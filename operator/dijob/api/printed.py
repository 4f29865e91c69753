"""Makes text from outside safe to show: logs and termination messages of programs, events, API
errors, and names that the apiserver does not validate.

The author of such text may be another tenant. Unchanged, the text could clear a terminal, set its
title, or add a line to a log. It could also reorder what a person reads, or hide a part of a
message. Every place where such text enters a status, an event, a log or a terminal uses one of
these functions. Characters that people type on purpose are kept: the letters of all scripts,
combining marks, emoji (docs/decisions/044).
"""

import json
import re
from typing import Final

# Escape sequences (ECMA-48), both in the form that begins with ESC and in the form that begins with
# a single control byte. The sequences are colors and cursor movements (CSI), strings (DCS, SOS,
# OSC, PM, APC), and all remaining sequences, which are short. A string, such as a window title,
# must have its terminator on the same line. _COLOUR does not match attribute 8, which hides the
# text that follows.
_COLOUR: Final = r"\x1b\[(?![0-9;:]*(?<![0-9])0*8(?![0-9]))[0-9;:]*m"
_CSI: Final = r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
_STRING: Final = (
    r"(?:\x1b[PX\]^_]|[\x90\x98\x9d-\x9f])[^\x00-\x08\n-\x1f\x7f-\x9f]*(?:\x07|\x1b\\|\x9c)"
)
_SHORT: Final = r"\x1b[ -/]*[0-~]"
# Flags of regions (England, Texas): the only visible use of tag characters.
_FLAG: Final = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f"
# Format characters that reorder text (bidirectional controls), have no width, or mark other text as
# hidden. The joiners U+200C and U+200D stay: emoji, Persian and Indic scripts need them. Surrogates
# cannot be written as UTF-8.
_FORMAT: Final = (
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff"
)
# Characters that start a new line in a terminal, in an editor, or for str.splitlines.
_BREAK: Final = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")

_REMOVED: Final = rf"{_CSI}|{_STRING}|{_SHORT}|[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMAT}]"
_PLAIN: Final = re.compile(f"({_FLAG})|{_REMOVED}")
_COLOURED: Final = re.compile(f"({_COLOUR}|{_FLAG})|{_REMOVED}")
_ESCAPED: Final = re.compile(f"({_FLAG})|[\x7f-\x9f\u2028\u2029{_FORMAT}]")
_RESET: Final = "\x1b[0m"


def plain_text(text: str) -> str:
    """Return the text without escape sequences, control characters, or characters that reorder or
    hide other characters. Tabs stay, and every kind of line break becomes a line feed.
    """
    return _PLAIN.sub(r"\1", _BREAK.sub("\n", text))


def one_line(text: str) -> str:
    """Return the plain text as one line, with a space for each line break and tab."""
    lines = (line.strip() for line in plain_text(text).replace("\t", " ").split("\n"))
    return " ".join(line for line in lines if line)


def coloured_line(line: str) -> str:
    """Return a log line for a terminal: plain text that keeps its colors, which are reset at the
    end of the line.

    A progress bar overwrites itself, so only its last state is kept.
    """
    last = _BREAK.sub("\n", line).rstrip().rpartition("\n")[2]
    shown = _COLOURED.sub(r"\1", last)
    return shown + _RESET if "\x1b" in shown else shown


def escape_json(document: str) -> str:
    """Return a JSON document in which the characters that `plain_text` would remove are escaped.
    Programs that parse the document get the same values.
    """
    return _ESCAPED.sub(lambda found: found[1] or json.dumps(found[0])[1:-1], document)
