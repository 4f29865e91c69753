"""docs/performance.md shows the measured results."""

import re
from pathlib import Path

import goals
import pytest
from faults.lab.restarts import Restart
from measured import CROWD, Rest, Result, Shape
from page import PAGE, all_blocks, filled
from report import Machine, Report, Start

MACHINE = Machine("2026-11-24", 2, 24, 0.1)


def result(seconds: float, peak: float = 0) -> Result:
    return Result(seconds, seconds, seconds, {"etcd": 1.0}, peak=peak, size=1)


def full() -> Report:
    few, large = Shape(100, 4), Shape(1, 1500)
    starts = [
        Start(few, "IP", result(10)),
        Start(few, "gated", result(5)),
        Start(CROWD, "IP", result(125, peak=190)),
        Start(CROWD, "IP, channel", result(100, peak=170)),
        Start(large, "IP", result(60, peak=210)),
    ]
    restarts = [Restart(seconds, 4, 100, []) for seconds in (2.0, 3.5, 2.5)]
    reconnects = [Restart(3.5, 5, 130, ["patch job1"])]
    return Report(MACHINE, starts, [], Rest(180, 1, 2), restarts, reconnects)


def test_the_tables_of_the_page_are_those_of_the_figures() -> None:
    shown = PAGE.read_text()
    blocks = all_blocks()
    assert filled(shown, blocks) == shown, "make bench-page"
    assert set(re.findall(r"<!-- ([\w-]+) -->", shown)) == set(blocks)


def test_a_page_without_a_place_for_a_table_is_not_written() -> None:
    with pytest.raises(KeyError, match="starts"):
        filled("no place", {"starts": "a table"})


def test_the_goals_of_many_jobs() -> None:
    rows = {f"{where} {words}": row for where, words, *row in goals.full_rows(full())}
    assert rows == {
        "1000x4 pods/s relative to 100x4": [">= 0.9", "0.80", "missed by 0.10"],
        "1000x4 IP: peak RSS": ["<= 200 MB", "190.00 MB", "reached"],
        "1000x4 IP, channel: peak RSS": ["<= 160 MB", "170.00 MB", "missed by 10.00 MB"],
        "1x1500 IP: peak RSS": ["<= 200 MB", "210.00 MB", "missed by 10.00 MB"],
        "1000x4 writes per hour per 1,000 jobs at rest, extrapolated from 180 s": [
            "<= 0",
            "20.00",
            "missed by 20.00",
        ],
        "1000x4 restart: first reaction, median of 3": ["<= 3 s", "2.50 s", "reached"],
        "1000x4 restart: writes for other jobs": ["<= 0", "0.00", "reached"],
        "1000x4 restart: RSS": ["<= 110 MB", "100.00 MB", "reached"],
        "1000x4 restart with 4,000 launchers: first reaction, median of 1": [
            "<= 3 s",
            "3.50 s",
            "missed by 0.50 s",
        ],
        "1000x4 restart with 4,000 launchers: writes for other jobs": [
            "<= 0",
            "1.00",
            "missed by 1.00",
        ],
        "1000x4 restart with 4,000 launchers: RSS": ["<= 160 MB", "130.00 MB", "reached"],
    }


def test_a_goal_without_its_entrant_is_reported() -> None:
    found = {"IP": result(10), "gated": result(8)}
    rows = {words: row for _, words, *row in goals.rows(Shape(100, 4), found)}
    assert rows["IP relative to gated: seconds"] == ["<= 1.3", "1.25", "reached"]
    words = f"{goals.DEFAULT}: writes per job beyond one per rank"
    assert rows[words] == ["4", "-", f"{goals.DEFAULT} was not measured"]


def test_figures_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "full.json"
    full().save(path)
    assert Report.read(path) == full()
