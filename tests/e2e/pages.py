"""Reads the commands of a documentation page verbatim."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Placeholders for values that only the reader knows.
_PLACEHOLDER = re.compile(r"\b(REGISTRY|FILE|NAME|INSTALLER)\b")


def section(page: str, heading: str = "") -> str:
    """Return the part of a page below a heading of the second level, or the part before the first
    heading.
    """
    parts = re.split(r"(?m)^## (.*)$", (ROOT / page).read_text())
    found = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    return found[heading]


def commands(text: str) -> list[str]:
    """Return the blocks of shell commands, fenced or indented, that have no placeholders."""
    fenced = re.findall(r"(?m)^```bash\n((?:.*\n)*?)```$", text)
    plain = re.sub(r"(?m)^```\w*\n(?:.*\n)*?```$", "", text)
    indented = [
        re.sub(r"(?m)^ {4}", "", block)
        for block in re.findall(r"(?m)(?:^ {4}\S.*\n(?: {6,}.*\n)*)+", plain)
    ]
    return [block for block in (*fenced, *indented) if not _PLACEHOLDER.search(block)]
