"""The goals of the benchmark, and whether the measured figures reach them.

Most goals are ratios between entrants of one run, because times differ between machines.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faults.lab.restarts import Restart
from measured import CROWD, Result, Shape
from report import Report

HEAD = ("jobs x ranks", "figure", "goal", "measured", "")
Row = tuple[object, ...]
Figure = Callable[[Shape, Mapping[str, Result]], float]


@dataclass(frozen=True)
class Bound:
    """A bound for a figure: the maximum, or the minimum if `at_least`."""

    value: float
    unit: str = ""
    at_least: bool = False

    def row(self, where: object, words: str, now: float) -> Row:
        """Return the row of the table that compares the measured figure with the goal."""
        sign, missing = (">=", self.value - now) if self.at_least else ("<=", now - self.value)
        met = "reached" if missing <= 0 else f"missed by {missing:.2f}{self.unit}"
        return where, words, f"{sign} {self.value:g}{self.unit}", f"{now:.2f}{self.unit}", met


@dataclass(frozen=True)
class Goal:
    """A figure of a start, with its bounds by shape ("100x4"); "" is for all other shapes."""

    words: str
    bounds: Mapping[str, float]
    figure: Figure
    unit: str = ""
    at_least: bool = False

    def bound(self, shape: Shape) -> Bound | None:
        """Return the bound for this shape, if there is one."""
        value = self.bounds.get(str(shape), self.bounds.get(""))
        return None if value is None else Bound(value, self.unit, self.at_least)


def _writes(name: str, shape: Shape, results: Mapping[str, Result]) -> float:
    return results[name].written / shape.jobs


def _own(name: str, shape: Shape, results: Mapping[str, Result]) -> float:
    return 1000 * results[name].own / shape.pods


def _cpu(name: str, results: Mapping[str, Result]) -> float:
    """Return the CPU seconds of the control plane and of the entrant's own process."""
    return results[name].plane + results[name].own


# How pods start by default on a new cluster: without a gate, and with the launcher's image mounted.
DEFAULT = "IP, channel, image volume"


def _cpu_goal(other: str, bounds: Mapping[str, float]) -> Goal:
    return Goal(
        f"{DEFAULT}, relative to {other}: CPU of control plane and entrant",
        bounds,
        lambda shape, results: _cpu(DEFAULT, results) / _cpu(other, results),
    )


# A goal that is missed stays in the table, so that the page shows the distance from it.
GOALS = (
    _cpu_goal("JobSet", {"100x4": 0.7, "5x200": 0.95}),
    Goal(
        f"{DEFAULT}, relative to JobSet: seconds",
        {"100x4": 0.7, "5x200": 0.95},
        lambda shape, results: results[DEFAULT].seconds / results["JobSet"].seconds,
    ),
    _cpu_goal("bare", {"100x4": 2.5, "5x200": 2.4}),
    Goal(
        # Each pod is created once. Its list comes through the channel.
        f"{DEFAULT}: writes per job beyond one per rank",
        {"": 4},
        lambda shape, results: _writes(DEFAULT, shape, results) - shape.ranks,
    ),
    Goal(
        f"{DEFAULT}: operator's CPU per pod",
        {"100x4": 3.5},
        lambda shape, results: _own(DEFAULT, shape, results),
        " ms",
    ),
    Goal(
        # The ratio to the gated floor shows what the operator adds to the unavoidable cost of pods
        # with a gate.
        "IP relative to gated: seconds",
        {"100x4": 1.3, "5x200": 1.15},
        lambda shape, results: results["IP"].seconds / results["gated"].seconds,
    ),
    Goal(
        "IP relative to gated: control plane's CPU",
        {"100x4": 1.25, "5x200": 1.1},
        lambda shape, results: results["IP"].plane / results["gated"].plane,
    ),
    Goal(
        "IP relative to gated: pod size",
        {"": 1.25},
        lambda shape, results: results["IP"].size / results["gated"].size,
    ),
    # With a gate each pod is created and patched once.
    Goal(
        "IP: writes per job beyond two per rank",
        {"": 4},
        lambda shape, results: _writes("IP", shape, results) - 2 * shape.ranks,
    ),
    Goal("IP: operator's CPU per pod", {"": 2.5}, lambda s, r: _own("IP", s, r), " ms"),
)


def rows(shape: Shape, results: Mapping[str, Result]) -> Iterator[Row]:
    """Return the goals of a shape, each with its measured figure. A goal that needs an entrant
    which did not take part says so.
    """
    for goal in GOALS:
        # A goal without a bound for this shape does not apply to it.
        if (bound := goal.bound(shape)) is None:
            continue
        try:
            yield bound.row(shape, goal.words, goal.figure(shape, results))
        # The figure function names an entrant that did not take part, such as JobSet.
        except KeyError as absent:
            yield shape, goal.words, f"{bound.value:g}", "-", f"{absent.args[0]} was not measured"


FEW, LARGE = Shape(100, 4), Shape(1, 1500)
# Peak RSS in MB. With a channel, the operator also holds a connection of each launcher.
PEAKS = {"IP": 200, "IP, channel": 160}


def full_rows(report: Report) -> Iterator[Row]:
    """Return the goals of `make bench-full`; goals of shapes that were not run are left out."""
    tables = report.tables
    # `make bench-full` may be run with some shapes only.
    if "IP" in tables.get(FEW, ()) and "IP" in tables.get(CROWD, ()):
        rate, few = (shape.pods / tables[shape]["IP"].seconds for shape in (CROWD, FEW))
        yield Bound(0.9, "", at_least=True).row(CROWD, f"pods/s relative to {FEW}", rate / few)
    for shape in (CROWD, LARGE):
        for name, peak in PEAKS.items():
            if name in tables.get(shape, ()):
                yield Bound(peak, " MB").row(shape, f"{name}: peak RSS", tables[shape][name].peak)
    if rest := report.rest:
        hourly = rest.writes * 3600 / rest.seconds * 1000 / CROWD.jobs
        words = f"writes per hour per 1,000 jobs at rest, extrapolated from {rest.seconds:.0f} s"
        yield Bound(0).row(CROWD, words, hourly)
    yield from _restart_rows("restart", report.restarts, 110)
    yield from _restart_rows("restart with 4,000 launchers", report.reconnects, 160)


def _restart_rows(what: str, restarts: Sequence[Restart], peak: float) -> Iterator[Row]:
    """Return the goals of the restarts of the operator among running jobs."""
    if not restarts:
        return
    middle = statistics.median(each.seconds for each in restarts)
    words = f"{what}: first reaction, median of {len(restarts)}"
    yield Bound(3, " s").row(CROWD, words, middle)
    writes = sum(len(each.writes) for each in restarts)
    yield Bound(0).row(CROWD, f"{what}: writes for other jobs", writes)
    most = max(each.peak for each in restarts)
    yield Bound(peak, " MB").row(CROWD, f"{what}: RSS", most)
