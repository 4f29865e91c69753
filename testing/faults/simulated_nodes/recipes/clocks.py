"""Recipes about wrong clocks: the operator's, or those of nodes.

Deadlines and back-offs must not depend on the operator's wall clock. libfaketime shifts it without
changing the clock of the machine.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

from faults.lab.kube import pods
from faults.lab.lane import Lane
from faults.lab.waits import renewed
from faults.simulated_nodes.life import live
from faults.simulated_nodes.mischief import Shifted
from faults.simulated_nodes.recipes.network import DIFFERENCES
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

# Debian's path; without the library the recipes fail instead of testing nothing.
FAKE = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
INSTALLED = FAKE.exists()
HOUR = 3600
DEADLINE_SECONDS = 600
# The monotonic clock must stay correct: asyncio's timers use it, and no administrator can set it.
WALL_CLOCK_ONLY = {"FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@asynccontextmanager
async def clock(shift: int, jumps: bool, lane: Lane) -> AsyncIterator[None]:
    """Shift the operator's wall clock by `shift` seconds, from its start or, if `jumps`, while it
    runs. The monotonic clock stays correct, as it does when an administrator sets the wall
    clock.
    """
    assert INSTALLED, "libfaketime is not installed (Debian's package libfaketime)"
    said = lane.operator.log.with_suffix(".clock")
    # libfaketime reads the shift from this file again on each call, so it can change at run time.
    said.write_text("+0" if jumps else f"{shift:+d}")
    lane.operator.environment = {
        "LD_PRELOAD": str(FAKE),
        "FAKETIME_TIMESTAMP_FILE": str(said),
        **WALL_CLOCK_ONLY,
    }
    await lane.operator.kill()
    await lane.watching()
    await lane.reconciled(3)
    # Before the clock jumps, the operator has started and reconciled with the correct time.
    if jumps:
        said.write_text(f"{shift:+d}")
    yield


@asynccontextmanager
async def nodes(by: timedelta, lane: Lane) -> AsyncIterator[None]:
    """Set the clocks of half of the nodes ahead, and those of the others back."""
    shifted = Shifted(by)
    lane.proxy.retell, lane.proxy.change = shifted.retell, shifted.change
    await lane.operator.kill()
    await lane.watching()
    await lane.reconciled(3)
    yield


async def of_operator(shift: int, jumps: bool, stage: Stage) -> Outcome:
    lived = await live(stage, partial(clock, shift, jumps))
    return lived.outcome(len(lived.wrong))


async def takeover(shift: int, stage: Stage) -> Outcome:
    """An operator with a different clock takes over a job that has a deadline."""
    assert INSTALLED, "libfaketime is not installed (Debian's package libfaketime)"
    async with stage.lane() as lane:
        await lane.apply("a", activeDeadlineSeconds=DEADLINE_SECONDS)
        await lane.reaches("a", "Running")
        fake = {"LD_PRELOAD": str(FAKE), "FAKETIME": f"{shift:+d}s"}
        lane.operator.environment = fake | WALL_CLOCK_ONLY
        await lane.operator.restart()
        await lane.reconciled(1)
        await lane.kube.delete(pods(lane.namespace, "a-1"))
        # The recovery proves that the operator reconciled the job while its clock was wrong.
        healed = await renewed(lane, "a")
        seen = f"a lost rank recovered after {healed:.1f} s"
        # A deadline that was computed from the wrong clock would have ended the job by now.
        return Outcome(0 if (await lane.status("a"))["phase"] == "Running" else 1, seen)


async def of_nodes(minutes: int, stage: Stage) -> Outcome:
    lived = await live(stage, partial(nodes, timedelta(minutes=minutes)))
    return lived.outcome(len(lived.wrong))


def _row(name: str, done: str, shift: int, jumps: bool) -> Recipe:
    return Recipe("T15", name, done, DIFFERENCES, 0, partial(of_operator, shift, jumps))


RECIPES = (
    _row("clock-ahead", "the operator's clock is an hour ahead", HOUR, False),
    _row("clock-behind", "the operator's clock is an hour behind", -HOUR, False),
    _row(
        "clock-forward",
        "the operator's clock is set forward one hour while the operator runs",
        HOUR,
        True,
    ),
    _row(
        "clock-back",
        "the operator's clock is set back one hour while the operator runs",
        -HOUR,
        True,
    ),
    *(
        Recipe(
            "T15",
            f"takeover-{name}",
            f"an operator whose clock is an hour {name} takes over a job with a deadline of"
            f" {DEADLINE_SECONDS} s",
            "jobs that it ends",
            0,
            partial(takeover, shift),
        )
        for name, shift in (("ahead", HOUR), ("behind", -HOUR))
    ),
    Recipe(
        "T15",
        "clocks-of-nodes",
        "times in kubelets' statuses are 5 minutes ahead on half of the nodes, and behind on"
        " the others",
        DIFFERENCES,
        0,
        partial(of_nodes, 5),
    ),
)
