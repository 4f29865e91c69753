"""Prints one line for each case of test_field.py."""

import pytest
from fixtures import api, cluster, open_space, pytest_runtest_makereport, space

__all__ = ["api", "cluster", "open_space", "pytest_runtest_makereport", "space"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the first line of each docstring, the requirement, for the line about the case."""
    for item in items:
        if isinstance(item, pytest.Function) and "tests/field/" in item.nodeid:
            must = str(item.function.__doc__).strip().partition("\n")[0]
            item.user_properties.append(("must", must))


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Print a line for each case instead of a dot: case, result, seconds, requirement."""
    must = dict(report.user_properties).get("must")
    if must is None or (report.when != "call" and not report.failed):
        return None
    case = report.nodeid.rpartition("::test_")[2].partition("_")[0].upper()
    line = f"{case:4} {report.outcome:6} {report.duration:5.1f} s  {must}\n"
    return report.outcome, line, report.outcome.upper()
