"""The commands that a page of the documentation tells its reader to type, as they are printed."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# In the place of what only the reader knows.
_PLACEHOLDER = re.compile(r"\b(REGISTRY|FILE|NAME|INSTALLER)\b")


def section(page: str, heading: str = "") -> str:
    """The part of a page below a heading of the second level; without one, what comes before the
    first.
    """
    parts = re.split(r"(?m)^## (.*)$", (ROOT / page).read_text())
    found = dict(zip(["", *parts[1::2]], parts[::2], strict=True))
    return found[heading]


def commands(text: str) -> list[str]:
    """The blocks of shell lines, fenced or indented by four, but those with a placeholder."""
    fenced = re.findall(r"(?m)^```bash\n((?:.*\n)*?)```$", text)
    plain = re.sub(r"(?m)^```\w*\n(?:.*\n)*?```$", "", text)
    indented = [
        re.sub(r"(?m)^ {4}", "", block)
        for block in re.findall(r"(?m)(?:^ {4}\S.*\n(?: {6,}.*\n)*)+", plain)
    ]
    return [block for block in (*fenced, *indented) if not _PLACEHOLDER.search(block)]
