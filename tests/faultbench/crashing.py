"""Recipes about kill -9 of the operator at each write."""

import statistics
from contextlib import AsyncExitStack
from functools import partial

from faultbench.rows import Outcome, Recipe
from faultbench.stage import Stage
from faults.crashes import Scenario, enumerate_points
from faults.scenarios import SCENARIOS

# Of each scenario so many points are tried beside each other.
TEAM = 2


async def wrong_points(scenario: Scenario, stage: Stage) -> Outcome:
    """How many points end otherwise than without a kill. Each write is a point, and the last one
    two.
    """
    async with AsyncExitStack() as stack:
        team = [await stack.enter_async_context(stage.lane()) for _ in range(TEAM)]
        least, outcomes = await enumerate_points(team, scenario)
    killed = [outcome for outcome in outcomes if outcome.write]
    wrong = tuple(f"{one.point}, {one.write}: {one.wrong}" for one in outcomes if one.wrong)
    # How often the status is written depends on the times of the pods: one write may be spared.
    if len(killed) < max(1, least - 1):
        wrong = (*wrong, f"only {len(killed)} of {least + 1} points were reached")
    typical = statistics.median(one.seconds for one in outcomes)
    seen = f"{len(killed)} points; same result as without a kill after {typical:.1f} s (median)"
    return Outcome(sum(bool(one.wrong) for one in outcomes), seen, wrong)


RECIPES = tuple(
    Recipe(
        "T1",
        f"kill-{scenario.name}",
        f"kill -9 at each write: {scenario.words}",
        "crash points with a wrong result",
        0,
        partial(wrong_points, scenario),
    )
    for scenario in SCENARIOS
)
