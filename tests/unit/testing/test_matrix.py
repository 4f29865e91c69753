"""`make matrix`: reading and showing results, and that the README promises only tested versions."""

from pathlib import Path

import matrix
import pytest
import yaml
from cluster import EMBEDDED, Options, up
from cluster.build import CHOICE, NEWEST, OLDEST, chosen, target
from cluster.errors import ClusterError
from matrix import PAGE, RESULTS, ROOT, ROWS, Build, Matrix, Result, counted, rewritten

REPORT = """<testsuites><testsuite>
  <testcase classname="a" name="good"/>
  <testcase classname="a" name="bad"><failure message="no"/></testcase>
  <testcase classname="a" name="broken"><error message="no"/></testcase>
  <testcase classname="a" name="left"><skipped message="needs 1.35"/></testcase>
</testsuite></testsuites>"""


def test_a_report_is_counted(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = counted(ROWS[0], report, 90, 1)
    assert (found.passed, found.failed, found.skipped, found.seconds) == (1, 2, 1, 90)
    assert found.why == ["failed: a::bad", "failed: a::broken", "skipped: a::left: needs 1.35"]


def test_a_run_without_a_report_has_failed(tmp_path: Path) -> None:
    assert counted(ROWS[0], tmp_path / "none.xml", 1, 0).failed == 1


def test_a_run_that_was_interrupted_has_failed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuite><testcase classname="a" name="good"/></testsuite>')
    found = counted(ROWS[0], report, 1, 2)
    assert (found.passed, found.failed) == (1, 1)
    assert found.why == ["pytest ended with code 2 before all tests had run"]


def test_results_are_kept_and_the_page_shows_them(tmp_path: Path) -> None:
    first = Result("v1.30.14", "IPv6,IPv4", "some", 12, 0, 3, 90, "2026-11-25", ["skipped: x"])
    made, path = (
        Matrix({ROWS[0].name: first}, {"v1.30.14": Build(1200, 588)}),
        tmp_path / "matrix.json",
    )
    made.write(path)
    assert Matrix.read(path) == made
    page = rewritten(f"a\n{matrix.BEGIN}\nold\n{matrix.END}\nb\n", made)
    assert "| v1.30.14 | IPv6 + IPv4 | some | 12 | 0 | 3 | 1.5 |" in page
    assert "took 20.0 min (9.8 min of CPU time) for v1.30.14" in page
    assert page.startswith("a\n")
    assert page.endswith("\nb\n")
    assert "old" not in page


def test_the_page_has_the_table_of_the_results() -> None:
    page = PAGE.read_text()
    assert rewritten(page, Matrix.read(RESULTS)) == page


def test_the_results_are_of_the_rows_and_nothing_failed() -> None:
    """After a change to a row or its version, the row must be run again."""
    known = {row.name: (row.release.version, row.families, row.what) for row in ROWS}
    for name, result in Matrix.read(RESULTS).rows.items():
        assert known[name] == (result.kubernetes, result.families, result.what)
        assert result.passed > 0
        assert result.failed == 0, result.why


def test_the_rows_name_existing_tests() -> None:
    assert [t for row in ROWS for t in row.tests if not (ROOT / t).exists()] == []


def test_chart_and_readme_promise_the_oldest_tested_version() -> None:
    chart = yaml.safe_load((ROOT / "charts/dijob/Chart.yaml").read_text())
    assert chart["kubeVersion"] == f">={OLDEST.minor}.0-0"
    readme = (ROOT / "README.md").read_text()
    assert f"Kubernetes {OLDEST.minor} or newer" in readme
    assert NEWEST.version.removeprefix("v") in readme


def test_the_environment_chooses_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CHOICE, raising=False)
    assert (chosen(), target()) == (NEWEST, target(NEWEST))
    monkeypatch.setenv(CHOICE, OLDEST.minor)
    assert (chosen(), target()) == (OLDEST, target(OLDEST))
    assert target(OLDEST) != target(NEWEST)
    monkeypatch.setenv(CHOICE, "1.2")
    with pytest.raises(ClusterError, match=r"supported: 1\.37 and 1\.30"):
        chosen()


def test_the_oldest_version_has_no_real_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, OLDEST.minor)
    with pytest.raises(ClusterError, match="has only simulated nodes"):
        up(Options("never", EMBEDDED))
