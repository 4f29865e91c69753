"""Prints the coverage of each package of the operator, and exits with 1 if a package is below its
minimum.

Usage: python tests/coverage_table.py, after a run of pytest with --cov (make coverage).
"""

import json
import sys
import tempfile
from collections import Counter
from pathlib import Path, PurePath

from coverage import Coverage

# Minimum in percent, for lines and for branches.
FLOORS = {
    "core": 98,
    # Its main module starts everything, which the tests with a real API server run.
    "controller": 87,
    "kube": 90,
    "process": 90,
    "cli": 74,
    "client": 78,
    "dijob_extras": 80,
}
COUNTS = ("num_statements", "covered_lines", "num_branches", "covered_branches")


def by_package(files: dict[str, dict[str, dict[str, int]]]) -> dict[str, Counter[str]]:
    """Return the sums of each package of dijob, from the files in coverage's JSON, and the sums of
    dijob_extras. "dijob" has the modules at the top level.
    """
    found: dict[str, Counter[str]] = {}
    for path, measured in files.items():
        parts = PurePath(path).parts
        package = next(name for name in parts if name in ("dijob", "dijob_extras"))
        if package == "dijob":
            package = (*parts[parts.index(package) + 1 : -1], package)[0]
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
    print(
        f"{'package':<14}{'lines':>8}{'covered':>10}{'branches':>10}{'covered':>10}{'minimum':>8}"
    )
    for package, sums in sorted(found.items()):
        lines = share(sums["covered_lines"], sums["num_statements"])
        branches = share(sums["covered_branches"], sums["num_branches"])
        floor = FLOORS.get(package, 0)
        print(
            f"{package:<14}{sums['num_statements']:>8}{lines:>8.1f}"
            f" %{sums['num_branches']:>10}{branches:>8.1f} %{f'{floor} %' if floor else '':>8}"
        )
        if min(lines, branches) < floor:
            low.append(package)
    if low:
        print(
            f"below the minimum: {', '.join(low)}; to see the lines: coverage report -m",
            file=sys.stderr,
        )
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
