"""Prints how much of each package of the operator a measured run has reached; 1 where a package is
below its floor.

Use: python tests/coverage_table.py, after a run of pytest with --cov (make coverage).
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path, PurePath

from coverage import Coverage

# Percent, of lines and of branches each.
FLOORS = {"core": 98, "shell": 90, "cli": 74, "client": 78}
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_package(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, Counter[str]]:
    """The sums of each package below dijob, from the files of coverage's JSON; "dijob" has the
    modules in no other.
    """
    found: dict[str, Counter[str]] = {}
    for path, measured in files.items():
        parts = PurePath(path).parts
        package = (*parts[parts.index("dijob") + 1 : -1], "dijob")[0]
        found.setdefault(package, Counter()).update(
            {name: measured["summary"][name] for name in COUNTS}
        )
    return found


def share(covered: int, of: int) -> float:
    return 100 * covered / of if of else 100.0


def main() -> int:
    """Print the table."""
    measured = Coverage()
    measured.load()
    with tempfile.TemporaryDirectory() as folder:
        measured.json_report(outfile=f"{folder}/all.json")
        found = by_package(json.loads(Path(folder, "all.json").read_text())["files"])
    low = sorted(FLOORS.keys() - found.keys())
    print(f"{'package':<10}{'lines':>8}{'reached':>10}{'branches':>10}{'reached':>10}{'floor':>8}")
    for package, sums in sorted(found.items()):
        lines = share(sums["covered_lines"], sums["num_statements"])
        branches = share(sums["covered_branches"], sums["num_branches"])
        floor = FLOORS.get(package, 0)
        print(
            f"{package:<10}{sums['num_statements']:>8}{lines:>8.1f}"
            f" %{sums['num_branches']:>10}{branches:>8.1f} %{f'{floor} %' if floor else '':>8}"
        )
        if min(lines, branches) < floor:
            low.append(package)
    if low:
        print(
            f"below the floor: {', '.join(low)}; which lines: coverage report -m", file=sys.stderr
        )
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
