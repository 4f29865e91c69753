"""Injects faults on simulated nodes: python -m faults.simulated_nodes [--seed N] [--channel]
[--json FILE] [ROW ...].

Each row injects one fault, measures its effect and compares the final state with that of a run
without faults. docs/reliability.md explains the method and shows the results.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from place import until_served
from planes import control_plane
from report import Machine
from workers import own

from faults.lab.kube import Access, Kube
from faults.simulated_nodes.recipes import (
    clocks,
    crashing,
    leaders,
    network,
    nodes,
    tenants,
    walk,
    whole,
)
from faults.simulated_nodes.rows import Recipe, Report, Row, chosen, table
from faults.simulated_nodes.stage import CHANNEL_HELP, Stage

RECIPES = tuple(
    recipe
    for part in (crashing, network, leaders, nodes, clocks, tenants, walk, whole)
    for recipe in part.RECIPES
)
# How many recipes run at the same time. A recipe spends most of its time waiting.
LANES = 3
# More than the longest recipe takes on a busy machine. A recipe that takes longer counts as failed.
LIMIT_SECONDS = 600.0


async def run_one(recipe: Recipe, stage: Stage) -> Row:
    """Run one recipe, print its result, and return the row. An error becomes part of the row."""
    begin = time.monotonic()
    try:
        outcome = await asyncio.wait_for(recipe.run(stage), LIMIT_SECONDS)
    # A failed recipe must not end the bench, because the bench takes many minutes. The recipe's row
    # shows the error.
    except Exception as error:
        row = Row.of(recipe, f"{type(error).__name__}: {error}", time.monotonic() - begin)
    else:
        row = Row.of(recipe, outcome, time.monotonic() - begin)
    verdict = "within" if row.within else "OUT"
    print(
        f"[{row.seconds:.0f} s] {row.number} {row.name}: {row.measures}: {row.figure}"
        f" (bound {row.bound:g}) {verdict}; {row.seen}",
        *row.wrong,
        sep="\n    ",
        flush=True,
    )
    return row


async def run_all(recipes: Sequence[Recipe], stage: Stage) -> list[Row]:
    """Run the recipes that can share the control plane, LANES at a time, and then the others one
    after another. Return the rows in the given order.
    """
    room = asyncio.Semaphore(LANES)

    async def beside(recipe: Recipe) -> Row:
        async with room:
            return await run_one(recipe, stage)

    # The others run last and one by one, because their faults affect the whole control plane.
    shared = [recipe for recipe in recipes if not recipe.alone]
    done = dict(zip(shared, await asyncio.gather(*map(beside, shared)), strict=True))
    for recipe in recipes:
        if recipe.alone:
            done[recipe] = await run_one(recipe, stage)
    return [done[recipe] for recipe in recipes]


async def bench(recipes: Sequence[Recipe], seed: int, folder: Path, channel: bool) -> Report:
    """Run the recipes on a separate control plane."""
    with control_plane(own("simulated-nodes"), nodes=50, loopback_pods=channel) as plane:
        async with Kube(Access.of(plane.kubeconfig)) as kube:
            await until_served(kube)
            stage = Stage(plane, kube, folder, seed, channel)
            return Report(Machine.here(), seed, await run_all(recipes, stage))


def main() -> None:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("rows", nargs="*", help="names or numbers of rows (default: all)")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="print the rows and exit")
    parser.add_argument("--channel", action="store_true", help=CHANNEL_HELP)
    given = parser.parse_args()
    recipes = chosen(RECIPES, given.rows)
    if given.channel:
        recipes = [one for one in recipes if one.over_channel]
    # The list is only for choosing rows, so it needs no control plane.
    if given.list:
        print(*(f"{one.number:5} {one.name:20} {one.done}" for one in recipes), sep="\n")
        return
    print(f"{len(recipes)} rows, seed {given.seed}", flush=True)
    # Without this, the control plane and its processes would outlive a SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        report = asyncio.run(bench(recipes, given.seed, Path(folder), given.channel))
    print(table(report))
    print(
        f"{len(recipes)} rows in {time.monotonic() - begin:.0f} s; out of bound:"
        f" {len(report.out_of_bounds)}"
    )
    if given.json:
        report.save(given.json)
    sys.exit(bool(report.out_of_bounds))


if __name__ == "__main__":
    main()
