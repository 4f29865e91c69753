"""`make version VERSION=...`: sets the version in all files that contain it, and puts its heading
above the unreleased changes in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from datetime import UTC, date, datetime

from bundle import PLACES, UNRELEASED
from catalogue import ROOT

VERSION = re.compile(r"\d+\.\d+\.\d+(-dev)?")
CHANGELOG = "CHANGELOG.md"


def with_version(text: str, pattern: str, version: str) -> str:
    """Return the text of a file with its version replaced. The pattern's group matches the old
    version.
    """

    def replaced(match: re.Match[str]) -> str:
        begin, end = match.start(1) - match.start(), match.end(1) - match.start()
        return f"{match[0][:begin]}{version}{match[0][end:]}"

    return re.sub(pattern, replaced, text, flags=re.MULTILINE)


def with_heading(changelog: str, version: str, day: date) -> str:
    """Return the changelog with the version's heading above the unreleased changes. The
    changelog is unchanged for a version that ends in -dev or that already has a heading.
    """
    if version.endswith("-dev") or re.search(rf"(?m)^## {re.escape(version)} - ", changelog):
        return changelog
    old = f"## {UNRELEASED}\n"
    return changelog.replace(old, f"{old}\n## {version} - {day.isoformat()}\n", 1)


def main() -> int:
    """Write the files, and print their names. Exit with code 2 if the version is malformed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    version = parser.parse_args().version
    if not VERSION.fullmatch(version):
        parser.error(f"{version} is not a version such as 0.2.0 or 0.3.0-dev")
    texts = {place: (ROOT / place).read_text() for place in (*PLACES, CHANGELOG)}
    today = datetime.now(UTC).date()
    after = {
        place: with_version(texts[place], pattern, version) for place, pattern in PLACES.items()
    }
    after[CHANGELOG] = with_heading(texts[CHANGELOG], version, today)
    for place, text in after.items():
        (ROOT / place).write_text(text)
    changed = [place for place, text in after.items() if text != texts[place]]
    print(f"version {version}: {', '.join(changed) or 'nothing to change'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
