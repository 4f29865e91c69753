"""The alerts of the chart fire when they should, and only then, according to promtool."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from monitoring import ALERTS, debian_prometheus

CASES = Path(__file__).with_name("alerts-test.yaml")
RULES: list[dict[str, Any]] = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]

pytestmark = pytest.mark.e2e


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(debian_prometheus() / "promtool"), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the rules and their test cases."""
    for path in (ALERTS, CASES):
        shutil.copy(path, tmp_path)
    return tmp_path


def test_the_rules_are_valid_and_pass_their_cases(folder: Path) -> None:
    checked = promtool("check", "rules", ALERTS.name, folder=folder)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(RULES)} rules found" in checked.stdout
    tested = promtool("test", "rules", CASES.name, folder=folder)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(alert: str) -> None:
    found = [
        bool(case["exp_alerts"])
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == alert
    ]
    assert set(found) == {True, False}
