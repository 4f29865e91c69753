"""Writes the table about real pods in docs/reliability.md from bench/results/chaos.json: python -m
faults.real_pods.page.
"""

import json
from pathlib import Path

from archives import ROOT
from page import filled

from faults.real_pods.table import Result, joined, markdown, rows

PAGE, FIGURES = ROOT / "docs/reliability.md", ROOT / "bench/results/chaos.json"
NAME = "faults on real pods"


def blocks(runs: list[Result]) -> dict[str, str]:
    """Return the table for all runs together, with the seeds above it."""
    all_ = joined(runs)
    seeds = ", ".join(f"{run.seed} ({run.minutes:g} min, {run.waves} waves)" for run in runs)
    return {NAME: f"Seeds: {seeds}.\n\n{markdown(rows(all_))}"}


def read(path: Path) -> list[Result]:
    """Return the runs of a file."""
    return [Result.of(run) for run in json.loads(path.read_text())["runs"]]


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(), blocks(read(FIGURES))))


if __name__ == "__main__":
    main()
