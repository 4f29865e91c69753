"""Tests of the test environment itself."""

from pathlib import Path

import pytest
from pod.boxes import program


def test_a_missing_program_skips_its_tests_but_fails_them_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("DIJOB_SKIP_NOTHING", raising=False)
    with pytest.raises(pytest.skip.Exception, match="missing: dash"):
        program("dash")
    ci = Path(__file__).parents[2] / ".ci/run"
    assert "DIJOB_SKIP_NOTHING=1" in ci.read_text()
    monkeypatch.setenv("DIJOB_SKIP_NOTHING", "1")
    with pytest.raises(pytest.fail.Exception, match="missing: dash"):
        program("dash")
