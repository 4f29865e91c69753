"""Writes files that are generated from the code, or checks that they are up to date."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]


def settle_pages(prog: str, about: str, pages: Mapping[str, str]) -> int:
    """Run a generator's command-line interface and return its exit code.

    `pages` maps paths in the repository to their texts. Without --check, the files that differ are
    written. With --check nothing is written, and the exit code is 1 if a file is out of date.
    """
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    check = parser.parse_args().check
    stale = []
    for name, text in pages.items():
        path = _ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        print(f"{'out of date, run `make crds`' if check else 'written'}: {', '.join(stale)}")
    return 1 if check and stale else 0
