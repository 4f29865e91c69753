"""docs/reliability.md shows the results of the fault tests."""

import re
from functools import partial
from pathlib import Path

import pytest
from faults.simulated_nodes.__main__ import RECIPES
from faults.simulated_nodes.page import FAULTS, NOT_MEASURED, PAGE, blocks
from faults.simulated_nodes.rows import Outcome, Recipe, Report, Row, chosen, table
from faults.simulated_nodes.stage import Stage
from faults.soak import results as soaked
from faults.soak.results import Sample, Soaked
from page import filled
from report import Machine

MACHINE = Machine("2026-11-25", 2, 24, 0.1)


async def nothing(stage: Stage) -> Outcome:
    return Outcome(0)


RECIPE = Recipe("T2", "cut", "watches are cut", "seconds", 3, nothing)


@pytest.mark.parametrize(
    ("outcome", "within"),
    [
        (Outcome(3), True),
        (Outcome(3.01), False),
        (Outcome(0, wrong=("a pod was created twice",)), False),
        ("AssertionError: never", False),
    ],
    ids=["at the bound", "beyond it", "in time and wrong", "not measured"],
)
def test_a_row_is_within_its_bound_if_its_figure_is_and_nothing_is_wrong(
    outcome: Outcome | str, within: bool
) -> None:
    row = Row.of(RECIPE, outcome, 12.3)
    assert row.within is within
    report = Report(MACHINE, 7, [row])
    assert (report.out_of_bounds == []) is within
    assert ("OUT OF BOUND" in table(report)) is not within


def test_figures_come_back_from_a_file_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    report = Report(MACHINE, 7, [Row.of(RECIPE, Outcome(1.234, "b", ("c",)), 12.3)])
    report.save(path)
    assert Report.read(path) == report


def test_rows_are_selected_by_name_or_number() -> None:
    assert [one.name for one in chosen(RECIPES, ["cut", "T9"])] == ["cut", "stall"]
    assert chosen(RECIPES, []) == list(RECIPES)
    with pytest.raises(ValueError, match="no row T99; there are"):
        chosen(RECIPES, ["T99"])


def test_each_recipe_has_a_name_of_its_own() -> None:
    assert len({one.name for one in RECIPES}) == len(RECIPES)


def test_the_tables_of_the_page_are_those_of_the_figures() -> None:
    shown = PAGE.read_text()
    assert filled(shown, blocks()) == shown, "make faults-page"
    assert set(re.findall(r"<!-- (faults|soak) -->", shown)) == set(blocks())


def test_the_results_match_the_current_recipes() -> None:
    wanted = [(one.number, one.name, one.done, one.bound) for one in RECIPES]
    if not FAULTS.exists():
        assert NOT_MEASURED.format("faults") in PAGE.read_text()
        return
    rows = Report.read(FAULTS).rows
    assert [(row.number, row.name, row.done, row.bound) for row in rows] == wanted


MEMORY = partial(Sample, process="a1")


@pytest.mark.parametrize(
    ("samples", "slope"),
    [
        ([MEMORY(at=t, rss=100 + t / 3600) for t in range(100)], 1.0),
        ([MEMORY(at=t, rss=100.0) for t in range(100)], 0.0),
        # Growth at the beginning does not continue.
        ([MEMORY(at=t, rss=min(t, 50.0)) for t in range(100)], 0.0),
        # A process that started in the second half is still growing.
        ([MEMORY(at=t, rss=t) for t in range(80, 100)] + [MEMORY(at=0, rss=1)], 0.0),
    ],
    ids=["grows", "stays", "grew up", "young"],
)
def test_the_slope_is_that_of_a_process_that_lived_through_the_second_half(
    samples: list[Sample], slope: float
) -> None:
    assert soaked.slope(samples, 50) == pytest.approx(slope)


@pytest.mark.parametrize(
    ("minutes", "slope", "leaks", "wrong", "within"),
    [
        (30, 0, [], [], True),
        (30, soaked.SLOPE_MB + 1, [], [], False),
        (1, soaked.SLOPE_MB + 1, [], [], True),
        (30, 0, ["1 sockets"], [], False),
        (30, 0, [], ["s1 never ran"], False),
    ],
    ids=["well", "grows", "too short for a slope", "leaks", "wrong"],
)
def test_a_soak_is_within_its_bounds_if_each_figure_is(
    minutes: float, slope: float, leaks: list[str], wrong: list[str], within: bool
) -> None:
    made = Soaked(MACHINE, 1, minutes, 9, {}, slope, leaks, 1, 2, 90, wrong)
    assert made.within is within
