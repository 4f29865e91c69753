"""How long jobs take to start on 50 pretended nodes, and what that costs: all entrants in turn in
one run: python bench/start.py.
"""

import argparse
import asyncio
import os
import statistics
import time
from pathlib import Path

from cluster import Cluster
from entrants import JOBSET, entrants, race_one
from faults.kube import Access, Kube
from jobset import BURST, QPS
from measured import Result, Shape
from page import show
from place import Place, own_plane, until_served
from report import Machine, Report, Start
from tables import start_blocks, start_row


async def race(place: Place, shape: Shape, runs: int, warm: bool = True) -> list[Start]:
    """All entrants in turn, so that all see the same machine: each one's run of median seconds. A
    run of each with 5 jobs comes first, so that caches are warm.
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
    """All shapes, one after the other."""
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
        print(f"JobSet's client may ask {QPS} times a second, {BURST} at once")
    else:
        print(f"JobSet was not there: {JOBSET} names no program (docs/performance.md)")


if __name__ == "__main__":
    main()
