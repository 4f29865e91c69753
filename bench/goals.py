"""What the bench's figures are to be, as ratios within one run, and what they are."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from measured import Result, Shape

HEAD = """| jobs x ranks | figure | goal | measured | |
|---|---|---|---|---|"""
Figure = Callable[[Shape, Mapping[str, Result]], float]


@dataclass(frozen=True)
class Goal:
    """A figure that is to be at most so large; `most` by jobs x ranks, "" for all others."""

    words: str
    most: Mapping[str, float]
    figure: Figure
    unit: str = ""

    def bound(self, shape: Shape) -> float | None:
        return self.most.get(str(shape), self.most.get(""))


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
        "IP to the gated floor: bytes of a pod",
        {"": 1.25},
        lambda shape, results: results["IP"].size / results["gated"].size,
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
        if (most := goal.bound(shape)) is not None:
            is_now = goal.figure(shape, results)
            met = "reached" if is_now <= most else f"missed by {is_now - most:.2f}{goal.unit}"
            measured = f"{is_now:.2f}{goal.unit}"
            yield f"| {shape} | {goal.words} | <= {most:g}{goal.unit} | {measured} | {met} |"
