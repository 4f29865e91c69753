"""Measures how long jobs take to start on 50 simulated nodes, and the cost: python bench/start.py.

All entrants take turns within one run, so that all of them are measured under the same conditions.
"""

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path

from cluster import Cluster
from entrants import JOBSET, entrants, race_one
from faults.lab.kube import Access, Kube
from jobset import BURST, QPS
from measured import Result, Shape
from page import show
from place import Place, own_plane, until_served
from report import Machine, Report, Start
from tables import start_blocks, start_row


async def race(place: Place, shape: Shape, runs: int, warm: bool = True) -> list[Start]:
    """Run all entrants in turn, and return for each the run with the median time. If `warm`, a run
    of each with 5 jobs comes first, so that caches are warm.
    """
    found: dict[str, list[Result]] = {}
    for number in range(0 if warm else 1, runs + 1):
        now = shape if number else Shape(5, shape.ranks)
        for name in entrants():
            words = name.lower().replace(", ", "-").replace(" ", "-")
            namespace = f"{words}-{now}-{number}-{int(time.time())}"
            result = await race_one(place, now, name, namespace)
            if number:
                found.setdefault(name, []).append(result)
                print(f"# {number}:", *start_row(now, name, result), sep=" | ", flush=True)
    return [Start(shape, name, _median(results)) for name, results in found.items()]


def _median(results: list[Result]) -> Result:
    middle = statistics.median_low([result.seconds for result in results])
    return next(result for result in results if result.seconds == middle)


async def run(cluster: Cluster, shapes: list[Shape], runs: int, machine: Machine) -> Report:
    """Measure all shapes, one after another."""
    async with Kube(Access.of(cluster.kubeconfig)) as kube:
        await until_served(kube)
        report = Report(machine)
        for shape in shapes:
            report.starts.extend(await race(Place(cluster, kube), shape, runs))
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "shapes", nargs="*", default=["20x4", "100x4", "5x200"], help="JOBSxRANKS ..."
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="of each shape; the table has the medians (default 3)"
    )
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    machine = Machine.here()
    shapes = [Shape.parse(each) for each in given.shapes]
    with own_plane() as cluster:
        report = asyncio.run(run(cluster, shapes, given.runs, machine))
    show(start_blocks(report))
    if given.json:
        report.save(given.json)
    if JOBSET in os.environ:
        print(f"JobSet's client may send {QPS} requests per second, with bursts of {BURST}")
    else:
        print(f"JobSet was not measured: {JOBSET} is not set (see docs/performance.md)")


if __name__ == "__main__":
    main()
