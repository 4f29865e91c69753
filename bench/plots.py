"""Draws docs/pictures/bench-*.svg from the figures in bench/results: make bench-page.

The same figures give the same files, so that a picture changes in a commit only if its figures do.
"""

from collections.abc import Callable
from typing import Any

import matplotlib
from compared.record import FIGURES, Results, middle
from matplotlib import pyplot
from measured import Result, Shape
from page import FULL, PAGE, PEERS, START
from report import Report, Tables

matplotlib.use("svg")
matplotlib.rcParams.update(
    # Keep text as text, so that it can be searched, and make ids reproducible.
    {"svg.fonttype": "none", "svg.hashsalt": "dijob", "font.size": 9, "axes.axisbelow": True}
)
PICTURES = PAGE.parent / "pictures"
# The palette of Okabe and Ito, which color-blind readers can distinguish.
COLOURS = {
    "bare": "#999999",
    "waiting": "#56B4E9",
    "gated": "#000000",
    "IP, channel, image volume": "#CC79A7",
    "IP, channel": "#F0E442",
    "IP": "#D55E00",
    "IP, image volume": "#E69F00",
    "Hostname": "#009E73",
    "JobSet": "#0072B2",
}
FLOOR = "gated"
Figure = Callable[[Shape, Result], float]


def ratio_bars(axes: Any, tables: Tables, title: str, figure: Figure) -> None:
    """Draw a figure of each entrant by shape, relative to the gated floor."""
    # The order of COLOURS, so that each entrant has the same place and color in all pictures.
    names = [name for name in COLOURS if name != FLOOR and any(name in r for r in tables.values())]
    width = 0.8 / len(names)
    for place, name in enumerate(names):
        values = [
            figure(shape, found[name]) / figure(shape, found[FLOOR])
            for shape, found in tables.items()
        ]
        at = [index + (place - (len(names) - 1) / 2) * width for index in range(len(tables))]
        bars = axes.bar(at, values, width, label=name, color=COLOURS[name])
        axes.bar_label(bars, fmt="%.1f", fontsize=6.5, padding=1)
    axes.axhline(1, color=COLOURS[FLOOR], linewidth=1, label=f"{FLOOR} = 1")
    axes.set_xticks(range(len(tables)), [str(shape) for shape in tables])
    axes.set_title(title, fontsize=9)


def lines(axes: Any, tables: Tables, x: Callable[[Shape], int], figure: Figure) -> None:
    """Draw a figure of each entrant over the number of jobs or ranks."""
    for name in sorted({name for results in tables.values() for name in results}):
        points = [
            (x(shape), figure(shape, results[name]))
            for shape, results in tables.items()
            if name in results and figure(shape, results[name])
        ]
        axes.plot(
            *zip(*points, strict=True), marker="o", markersize=3, color=COLOURS[name], label=name
        )
    # The sizes grow by factors.
    axes.set_xscale("log")
    axes.set_xticks([x(shape) for shape in tables], [str(x(shape)) for shape in tables], fontsize=7)
    axes.minorticks_off()
    # A truncated axis would exaggerate the differences.
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.3)


def draw_starts(report: Report) -> None:
    """Draw the time and the CPU of all shapes, relative to the gated floor."""
    drawing, both = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    ratio_bars(both[0], report.tables, "seconds until all run", lambda _, result: result.seconds)
    ratio_bars(both[1], report.tables, "control plane's CPU", lambda _, result: result.plane)
    both[0].set_ylabel("times the gated floor")
    drawing.legend(
        *both[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=7.5
    )
    save(drawing, "bench-starts.svg")


def draw_growth(report: Report) -> None:
    """Draw how the cost of a pod grows with the number of jobs, and with the ranks of one job."""
    # Per pod, so that a horizontal line means that the cost grows in proportion.
    columns: dict[str, Figure] = {
        "ms per pod until all run": lambda shape, result: 1000 * result.seconds / shape.pods,
        "control plane's CPU, ms per pod": lambda shape, result: 1000 * result.plane / shape.pods,
        "operator's CPU, ms per pod": lambda shape, result: 1000 * result.own / shape.pods,
        "operator's peak RSS, MB": lambda _, result: result.peak,
    }
    many = {shape: found for shape, found in report.tables.items() if shape.jobs > 1}
    large = {shape: found for shape, found in report.tables.items() if shape.jobs == 1}
    drawing, grid = pyplot.subplots(2, 4, figsize=(11, 4.6), layout="constrained")
    for row, tables, words, x in (
        (grid[0], many, "jobs of four ranks", lambda shape: shape.jobs),
        (grid[1], large, "ranks of one job", lambda shape: shape.ranks),
    ):
        for axes, (title, figure) in zip(row, columns.items(), strict=True):
            lines(axes, tables, x, figure)
            axes.set_title(title, fontsize=9)
            axes.set_xlabel(words)
    drawing.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    save(drawing, "bench-growth.svg")


PEER_COLUMNS = 3
# The entrants of the comparison with peers, in the order of the bars.
PEER_COLOURS = {
    "by hand": "#000000",
    "DIJob": "#D55E00",
    "JobSet": "#0072B2",
    "PyTorchJob": "#009E73",
    "DI-orchestrator": "#CC79A7",
}


def draw_peers(results: Results) -> None:
    """Draw the medians of the comparison with peers, and a dot for each run."""
    figures = [figure for figure in FIGURES if any(run.figure == figure for run in results.runs)]
    rows, columns = -(-len(figures) // PEER_COLUMNS), min(PEER_COLUMNS, len(figures))
    drawing, grid = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 2.2 * rows), layout="constrained", squeeze=False
    )
    for axes, figure in zip(grid.flat, figures, strict=False):
        names = [name for name in PEER_COLOURS if results.of(name, figure)]
        for place, name in enumerate(names):
            runs = results.of(name, figure)
            value = middle(runs)
            if value is None:
                words = f" not within {runs[0].bound:.0f} s"
                axes.text(0, place, words, va="center", fontsize=7)
            else:
                bars = axes.barh(place, value, color=PEER_COLOURS[name], height=0.7)
                axes.bar_label(bars, fmt="%.1f", fontsize=7, padding=2)
            seconds = [run.seconds for run in runs if run.seconds is not None]
            axes.plot(seconds, [place] * len(seconds), ".", color="#999999", markersize=3)
        axes.set_yticks(range(len(names)), names, fontsize=7)
        # A run that did not end has no bar, but needs as much room.
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.margins(x=0.18)
        axes.set_xlim(left=0)
        axes.tick_params(axis="x", labelsize=7)
        axes.set_title(FIGURES[figure], fontsize=7.5)
        axes.set_xlabel("seconds", fontsize=7)
    for axes in grid.flat[len(figures) :]:
        axes.remove()
    save(drawing, "bench-peers.svg")


def save(drawing: Any, name: str) -> None:
    """Write a picture without a date, which would change the file on every run."""
    drawing.savefig(PICTURES / name, facecolor="white", metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    draw_starts(Report.read(START))
    draw_growth(Report.read(FULL))
    draw_peers(Results.read(PEERS))
