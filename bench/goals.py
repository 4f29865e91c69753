"""What the bench's figures are to be, as ratios within one run, and what they are."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from measured import Result, Shape

HEAD = """| jobs x ranks | figure | goal | measured | |
|---|---|---|---|---|"""
Figure = Callable[[Shape, Mapping[str, Result]], float]


@dataclass(frozen=True)
class Goal:
    """A figure that is to be at most, or `at_least`, so large; bounds by jobs x ranks, "" for all
    others.
    """

    words: str
    bounds: Mapping[str, float]
    figure: Figure
    unit: str = ""
    at_least: bool = False

    def bound(self, shape: Shape) -> float | None:
        return self.bounds.get(str(shape), self.bounds.get(""))

    def row(self, shape: Shape, bound: float, now: float) -> str:
        sign, missing = (">=", bound - now) if self.at_least else ("<=", now - bound)
        met = "reached" if missing <= 0 else f"missed by {missing:.2f}{self.unit}"
        goal, measured = f"{sign} {bound:g}{self.unit}", f"{now:.2f}{self.unit}"
        return f"| {shape} | {self.words} | {goal} | {measured} | {met} |"


def _writes(name: str, shape: Shape, results: Mapping[str, Result]) -> float:
    return results[name].writes.total() / shape.jobs


def _own(name: str, shape: Shape, results: Mapping[str, Result]) -> float:
    return 1000 * results[name].own / shape.pods


GOALS = (
    Goal(
        "IP to the gated floor: seconds",
        {"100x4": 1.3, "5x200": 1.15},
        lambda shape, results: results["IP"].seconds / results["gated"].seconds,
    ),
    Goal(
        "IP to the gated floor: control plane's CPU",
        {"100x4": 1.25, "5x200": 1.1},
        lambda shape, results: results["IP"].plane / results["gated"].plane,
    ),
    Goal(
        "times faster than JobSet: IP",
        {"100x4": 1.6, "5x200": 0.9},
        lambda shape, results: results["JobSet"].seconds / results["IP"].seconds,
        at_least=True,
    ),
    Goal(
        "times faster than JobSet: Hostname",
        {"100x4": 2.3, "5x200": 1.2},
        lambda shape, results: results["JobSet"].seconds / results["Hostname"].seconds,
        at_least=True,
    ),
    Goal(
        "IP to the gated floor: bytes of a pod",
        {"": 1.25},
        lambda shape, results: results["IP"].size / results["gated"].size,
    ),
    Goal(
        "IP, image volume, to the gated floor: bytes of a pod",
        {"": 1.25},
        lambda shape, results: results["IP, image volume"].size / results["gated"].size,
    ),
    Goal("IP: writes per job, less 2n", {"": 4}, lambda s, r: _writes("IP", s, r) - 2 * s.ranks),
    Goal(
        "Hostname: writes per job, less n",
        {"": 4},
        lambda s, r: _writes("Hostname", s, r) - s.ranks,
    ),
    Goal("IP: operator's CPU per pod", {"": 2.5}, lambda s, r: _own("IP", s, r), " ms"),
    Goal("Hostname: operator's CPU per pod", {"": 1.5}, lambda s, r: _own("Hostname", s, r), " ms"),
)


def rows(shape: Shape, results: Mapping[str, Result]) -> Iterator[str]:
    """The goals of a shape, each with its figure."""
    for goal in GOALS:
        if (bound := goal.bound(shape)) is None:
            continue
        try:
            yield goal.row(shape, bound, goal.figure(shape, results))
        except KeyError as absent:
            yield f"| {shape} | {goal.words} | {bound:g} | - | {absent.args[0]} was not there |"
