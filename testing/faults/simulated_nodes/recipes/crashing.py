"""Recipes that kill the operator with kill -9 at each of its writes.

Whatever the operator has done by then, the next one must bring the job to the same final state.
"""

import statistics
from contextlib import AsyncExitStack
from functools import partial

from faults.lab.crashes import Scenario, enumerate_points
from faults.lab.scenarios import SCENARIOS
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

# How many crash points of a scenario are tested at the same time.
TEAM = 2


async def wrong_points(scenario: Scenario, stage: Stage) -> Outcome:
    """Count the crash points with a wrong result.

    A result is wrong if the final state differs from that of a run without a kill, or if the number
    of created pods is wrong. There is one point before each write, and one after the last.
    """
    async with AsyncExitStack() as stack:
        team = [await stack.enter_async_context(stage.lane()) for _ in range(TEAM)]
        least, outcomes = await enumerate_points(team, scenario)
    # If a run ended before it reached the write of its point, the operator was not killed. Such a
    # point does not count.
    killed = [outcome for outcome in outcomes if outcome.write]
    wrong = tuple(f"{one.point}, {one.write}: {one.wrong}" for one in outcomes if one.wrong)
    # The number of status writes depends on the timing of the pods, so one write may be missing.
    if len(killed) < max(1, least - 1):
        wrong = (*wrong, f"only {len(killed)} of {least + 1} points were reached")
    typical = statistics.median(one.seconds for one in outcomes)
    seen = (
        f"{len(killed)} crash points; after {typical:.1f} s (median),"
        " the final state was the same as without a kill"
    )
    return Outcome(sum(bool(one.wrong) for one in outcomes), seen, wrong)


RECIPES = tuple(
    Recipe(
        "T1",
        f"kill-{scenario.name}",
        f"kill -9 at each write while this happens: {scenario.words}",
        "crash points with a wrong result",
        0,
        partial(wrong_points, scenario),
    )
    for scenario in SCENARIOS
)
