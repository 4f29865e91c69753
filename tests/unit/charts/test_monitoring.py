"""The chart's dashboard and alerts use existing metrics, and the docs describe each alert."""

import re

import pytest
import yaml
from dijob.controller import metrics
from dijob.history import metrics as history
from monitoring import ALERTS, BOARD, TARGET, asked, panels, queries
from unit.exposed import series

DOC = BOARD.parents[3] / "docs/operations.md"
# Metrics that are useful only for debugging the operator itself.
NOT_SHOWN = {"process_virtual_memory_bytes", "process_open_fds", "process_max_fds"}


def known_series() -> dict[str, set[str]]:
    """Return the labels of all series of the operator and of the history."""
    return {**series(), **series(history.REGISTRY)}


@pytest.mark.parametrize(("where", "expr"), queries(), ids=[where for where, _ in queries()])
def test_queries_use_existing_series_and_labels(where: str, expr: str) -> None:
    names, labels = asked(expr)
    known = known_series()
    assert names, f"{where} asks for nothing of ours"
    assert names <= known.keys(), f"{where}: {names - known.keys()}"
    assert labels <= set().union(TARGET, *(known[name] for name in names)), where


def test_every_metric_is_used() -> None:
    names = set().union(*(asked(expr)[0] for _, expr in queries()))
    suffixes = r"_(bucket|sum|count)$"
    left = {re.sub(suffixes, "", name) for name in known_series()}
    former = {name for name in left if name.removesuffix("_total") in metrics.FORMER_NAMES}
    assert left - {re.sub(suffixes, "", name) for name in names} == NOT_SHOWN | former


def test_each_panel_has_a_description_and_a_unique_title() -> None:
    assert all(panel["description"] for panel in panels())
    titles = [panel["title"] for panel in panels()]
    assert len(set(titles)) == len(titles)


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_page_describes_the_response_to_each_alert() -> None:
    rows = re.findall(r"^\| `(DIJob\w+)` \| (\w+) \|", DOC.read_text(), re.MULTILINE)
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    assert rows == [(rule["alert"], rule["labels"]["severity"]) for rule in group["rules"]]
