"""Files that are made from the code: written, or compared with what is there."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[3]


def settle(prog: str, about: str, pages: Mapping[str, str]) -> int:
    """A generator's command line: writes `pages`, a path below the repository's root to its text,
    and returns its exit code. 1: with --check, something is out of date.
    """
    parser = argparse.ArgumentParser(prog=prog, description=about)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail where a file differs"
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
