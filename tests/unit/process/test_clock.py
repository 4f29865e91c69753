"""Only the clock module reads the time and randomness, for the controller, kube and process."""

import re
from pathlib import Path

import pytest
from dijob import controller, kube, process
from dijob.process.clock import SYSTEM

FOLDERS = [Path(package.__path__[0]) for package in (controller, kube, process)]
OTHERS = [
    path for folder in FOLDERS for path in sorted(folder.rglob("*.py")) if path.name != "clock.py"
]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_only_the_clock_module_uses_time_and_randomness(path: Path) -> None:
    assert not re.findall(
        r"\b(time\.monotonic|time\.time|datetime\.now|random\.\w+)\(", path.read_text()
    )


def test_time_advances_and_jitter_is_bounded() -> None:
    assert SYSTEM.monotonic() <= SYSTEM.monotonic()
    assert SYSTEM.now().tzinfo is not None
    assert all(8 <= SYSTEM.spread(10) <= 12 for _ in range(100))
    assert all(9 <= SYSTEM.spread(10, 0.1) <= 11 for _ in range(100))
