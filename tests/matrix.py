"""`make matrix`: the tests on the newest and the oldest Kubernetes that the README promises, and
on IPv6 and dual stack.

Prints a table, stores the results in bench/results/matrix.json, and writes the table of
docs/install.md from them. ROWS="oldest ipv6" runs some rows and keeps the results of the others.
COLD=1 measures the build of each version with an empty Go cache first.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from cluster.build import CHOICE, NEWEST, OLDEST, Release, cache

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = ROOT / "bench/results/matrix.json"
PAGE: Final = ROOT / "docs/install.md"
BEGIN, END = "<!-- matrix -->", "<!-- end of matrix -->"
FAMILIES: Final = "DIJOB_IP_FAMILIES"  # tests/e2e/conftest.py reads it
COLUMNS: Final = ("Kubernetes", "IP", "tests", "passed", "failed", "skipped", "minutes")


@dataclass(frozen=True)
class Row:
    """Tests that run with one version of Kubernetes."""

    name: str
    release: Release
    what: str
    tests: tuple[str, ...]
    families: str = "IPv4"
    workers: int = 3


APISERVER = (
    "tests/apiserver",
    "tests/chart",
    "tests/faults/test_faults.py",
    "tests/faults/test_crash_points.py",
    "tests/faults/test_leaders.py",
)


def e2e(*names: str) -> tuple[str, ...]:
    """Return the files of these end-to-end tests."""
    return tuple(f"tests/e2e/test_{name}.py" for name in names)


CORE = e2e("first_steps", "mesh", "elastic", "healing", "policies")
ROWS: Final = (
    Row("oldest", OLDEST, "apiserver, chart, faults; nodes simulated by kwok", APISERVER),
    Row("newest", NEWEST, "apiserver, chart, faults; nodes simulated by kwok", APISERVER),
    Row("e2e", NEWEST, "real pods: first steps, mesh, elastic, healing, policies", CORE, workers=2),
    Row(
        "ipv6",
        NEWEST,
        "real pods: mesh, names, Redis, torchrun",
        e2e("mesh", "hostname", "redis", "torchrun"),
        "IPv6",
        workers=2,
    ),
    Row("dual", NEWEST, "real pods: mesh, names", e2e("mesh", "hostname"), "IPv4,IPv6", workers=1),
    Row(
        "dual-ipv6",
        NEWEST,
        "real pods: mesh, names",
        e2e("mesh", "hostname"),
        "IPv6,IPv4",
        workers=1,
    ),
)


@dataclass(frozen=True)
class Result:
    """The result of a row, with its date."""

    kubernetes: str
    families: str
    what: str
    passed: int
    failed: int
    skipped: int
    seconds: int
    day: str
    # The names of tests: skipped ones with the first line of the reason, failed ones without.
    why: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Build:
    """Seconds of a build with an empty Go cache on two cores; `cpu` is 0 if it was not measured."""

    seconds: int
    cpu: int

    def __str__(self) -> str:
        used = f" ({self.cpu / 60:.1f} min of CPU time)" if self.cpu else ""
        return f"{self.seconds / 60:.1f} min{used}"


@dataclass(frozen=True)
class Matrix:
    """All results by row, and builds with an empty cache by version."""

    rows: dict[str, Result] = field(default_factory=dict)
    cold: dict[str, Build] = field(default_factory=dict)

    @staticmethod
    def read(path: Path) -> "Matrix":
        """Read the results of earlier runs, if there are any."""
        if not path.exists():
            return Matrix()
        kept = json.loads(path.read_text())
        rows = {name: Result(**fields) for name, fields in kept["rows"].items()}
        return Matrix(rows, {name: Build(**fields) for name, fields in kept["cold"].items()})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    def table(self) -> str:
        """Format the rows that have results as Markdown."""
        lines = [_line(COLUMNS), _line("---" for _ in COLUMNS)]
        for row in ROWS:
            if it := self.rows.get(row.name):
                counts = (str(n) for n in (it.passed, it.failed, it.skipped))
                ip = it.families.replace(",", " + ")
                minutes = f"{it.seconds / 60:.1f}"
                lines.append(_line((it.kubernetes, ip, it.what, *counts, minutes)))
        return "\n".join(lines) + "\n"

    def builds(self) -> str:
        """Return a sentence about builds with an empty Go cache."""
        each = " and ".join(f"{build} for {version}" for version, build in self.cold.items())
        what = "Building the Kubernetes programs with an empty Go build cache on two cores"
        return f"{what} took {each}.\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def run(row: Row, logs: Path) -> Result:
    """Run a row with its output in a log. The counts come from pytest's report."""
    log, report = logs / f"{row.name}.log", logs / f"{row.name}.xml"
    report.unlink(missing_ok=True)
    options = [f"--junitxml={report}", "-m", "not long and not alone", "-n", str(row.workers)]
    argv = [sys.executable, "-m", "pytest", *row.tests, *options, "--dist", "loadfile"]
    env = {**os.environ, CHOICE: row.release.minor, FAMILIES: row.families}
    print(f"{row.name}: {row.release.version}, {row.families}; output in {log}", flush=True)
    begin = time.monotonic()
    with log.open("wb") as out:
        code = subprocess.run(
            argv, cwd=ROOT, env=env, stdout=out, stderr=out, check=False
        ).returncode
    return counted(row, report, round(time.monotonic() - begin), code)


def counted(row: Row, report: Path, seconds: int, code: int) -> Result:
    """Return the result in pytest's report. A run without a report, or one that was interrupted,
    has failed: pytest's exit code is 0 or 1 only if all tests have run.
    """
    known = (row.release.version, row.families, row.what)
    day = date.today().isoformat()
    if not report.exists():
        return Result(*known, 0, 1, 0, seconds, day, ["pytest ended without a report"])
    passed, failed, skipped, why = 0, 0, 0, []
    if code not in (0, 1):
        failed, why = 1, [f"pytest ended with code {code} before all tests had run"]
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            why.append(f"failed: {name}")
        elif skip is not None:
            skipped += 1
            why.append(f"skipped: {name}: {skip.get('message', '')}")
        else:
            passed += 1
    return Result(*known, passed, failed, skipped, seconds, day, why)


def cold_builds() -> dict[str, Build]:
    """Measure the build of each version with an empty Go cache (modules are cached)."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="cold-", dir=cache()) as folder:
        for release in (NEWEST, OLDEST):
            env = {
                **os.environ,
                "XDG_CACHE_HOME": f"{folder}/built",
                "GOCACHE": f"{folder}/go-{release.minor}",
                CHOICE: release.minor,
            }
            begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-m", "cluster", "build"], env=env, check=True)
            seconds, now = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
            found[release.version] = Build(round(seconds), round(cpu))
    return found


def rewritten(page: str, matrix: Matrix) -> str:
    """Return the page with the table of the matrix."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{matrix.table()}\n{matrix.builds()}{END}{after}"


def chosen(names: list[str]) -> list[Row]:
    """Return rows by name, or all by default. Raises SystemExit for an unknown name."""
    known: Mapping[str, Row] = {row.name: row for row in ROWS}
    if unknown := set(names) - known.keys():
        raise SystemExit(f"no row {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    return [row for row in ROWS if not names or row.name in names]


def main(argv: list[str]) -> int:
    """Return 0 if no test failed."""
    parser = argparse.ArgumentParser(prog="matrix", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--cold", action="store_true", help="measure the cold builds too")
    given: Any = parser.parse_args(argv)
    rows = chosen(given.rows)
    logs = cache() / "matrix"
    logs.mkdir(parents=True, exist_ok=True)
    if given.cold:
        matrix = Matrix.read(RESULTS)
        matrix.cold.update(cold_builds())
        matrix.write(RESULTS)
    for release in {row.release for row in rows}:
        env = {**os.environ, CHOICE: release.minor}
        subprocess.run([sys.executable, "-m", "cluster", "build"], env=env, check=True)
    for row in rows:
        result = run(row, logs)
        matrix = Matrix.read(RESULTS)  # another run may have written results in the meantime
        matrix.rows[row.name] = result
        matrix.write(RESULTS)
    PAGE.write_text(rewritten(PAGE.read_text(), matrix))
    print(matrix.table())
    print(*(f"{row.name}: {why}" for row in rows for why in matrix.rows[row.name].why), sep="\n")
    return int(any(matrix.rows[row.name].failed for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
