"""kill -9 around each write of a stretch of a job's life, enumerated: the end is always the right
one.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from faults.conftest import Lanes
from faults.exchange import Kill
from faults.kube import Json
from faults.lane import Lane, difference

REPLICAS = 4
LANES = 3
CONVERGED_SECONDS = 120
# The operator puts off writes that are not urgent by up to three seconds: after this long without
# any, none is to come.
QUIET_SECONDS = 4.0
# So many points may be tried again because kwok gave a pod a second address.
SPARE = 6
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Scenario:
    """A stretch of a job's life whose writes are enumerated."""

    name: str
    words: str
    trigger: Callable[[Lane, str], Awaitable[None]]
    phase: str | None  # None: the job is gone
    added: int
    started: bool = True  # begins with a job that runs
    spec: tuple[tuple[str, object], ...] = ()
    before: Callable[[Lane, str], Awaitable[None]] | None = None  # what has happened to it before

    async def prepare(self, lane: Lane, job: str) -> None:
        """The job as it is when the enumeration begins."""
        if not self.started:
            return
        await lane.apply(job, REPLICAS, **dict(self.spec))
        await lane.reaches(job, "Running")
        if self.before:
            await self.before(lane, job)


@dataclass(frozen=True)
class Point:
    """Where the operator dies: at the k-th write (1 is the first), before it arrives or after it is
    done.
    """

    k: int
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.k}"


@dataclass(frozen=True)
class Outcome:
    """What came of one point: the write it was ("": fewer were needed), seconds to the right end,
    what was wrong.
    """

    point: Point
    write: str
    seconds: float
    wrong: str

    def row(self) -> tuple[object, ...]:
        return (
            self.point,
            self.write,
            f"{self.seconds:.1f} s",
            "WRONG" if self.wrong else "as without faults",
        )


async def reference(lane: Lane, scenario: Scenario) -> tuple[int, Json]:
    """The stretch without faults: how many writes it takes, and where it ends."""
    job = f"{scenario.name}-{next(NUMBERS)}"
    # At once, as each point does it: how often the status is written depends on when it was written
    # last.
    await scenario.prepare(lane, job)
    before = len(lane.proxy.writes)
    await scenario.trigger(lane, job)
    await lane.reaches(job, scenario.phase)
    await quiet(lane)
    if scenario.phase:
        await lane.counted(job)
    count, state = len(lane.proxy.writes) - before, await lane.snapshot(job)
    assert lane.census.of(job) == scenario.added, f"{lane.census.added}; {lane.evidence()}"
    await lane.remove(job)
    return count, state


async def quiet(lane: Lane) -> None:
    """Until no write has come for a while."""
    last, since = len(lane.proxy.writes), time.monotonic()

    async def restless() -> str:
        nonlocal last, since
        if len(lane.proxy.writes) != last:
            last, since = len(lane.proxy.writes), time.monotonic()
        return "" if time.monotonic() - since >= QUIET_SECONDS else "there are writes"

    await lane.until("no more writes", restless, 30)


async def crash(lane: Lane, scenario: Scenario, point: Point, wanted: Json) -> Outcome | None:
    """One point. None where it says nothing, because kwok has given a pod a second address on the
    way.
    """
    job = f"{scenario.name}-{next(NUMBERS)}"
    await scenario.prepare(lane, job)
    kill = Kill(point.k, point.after, lane.operator.end)
    lane.proxy.kill_at(kill)
    begin = time.monotonic()
    await scenario.trigger(lane, job)
    wrong = await converges(lane, job, kill, wanted)
    lane.proxy.revive()
    if lane.operator.died():
        await lane.operator.restart()
    if not wrong and lane.census.of(job) != scenario.added:
        wrong = f"{lane.census.of(job)} pods were created, not {scenario.added}"
    await lane.remove(job)
    if lane.census.moved_of(job):
        return None
    write = (
        str(kill.write).replace(lane.namespace, "NAMESPACE").replace(job, "JOB")
        if kill.write
        else ""
    )
    return Outcome(point, write, time.monotonic() - begin, wrong)


async def converges(lane: Lane, job: str, kill: Kill, wanted: Json) -> str:
    """Restart the operator once it is dead, and wait for the wanted end; "" or how the end
    differs.
    """
    restarted = False

    async def unlike() -> str:
        nonlocal restarted
        if kill.done.is_set() and not restarted:
            await lane.operator.kill()
            lane.proxy.revive()
            await lane.operator.start()
            restarted = True
            # An end that was reached before the kill must also be left alone by the operator that
            # comes after it. (Where the job is gone in the end, it may be gone already.)
            if wanted["spec"] is not None:
                await lane.reconciled(1, CONVERGED_SECONDS)
        return "\n".join(difference(wanted, await lane.snapshot(job)))

    try:
        await lane.until(job, unlike, CONVERGED_SECONDS)
        if kill.done.is_set():
            await lane.until(job, unlike, CONVERGED_SECONDS)
    except AssertionError as error:
        return str(error)
    return ""


def points_of(writes: int) -> list[Point]:
    """Before each write, and after the last one.

    After the k-th is the same as before the next one: k writes are done, and of who made them
    nothing is left.
    """
    return [*(Point(k, after=False) for k in range(1, writes + 1)), Point(writes, after=True)]


async def enumerate_points(team: list[Lane], scenario: Scenario) -> tuple[int, list[Outcome]]:
    """All points of a scenario, shared out among the lanes; and how many writes it takes at least
    without faults.
    """
    references = await asyncio.gather(*(reference(lane, scenario) for lane in team[:2]))
    (count, wanted), (other, again) = references
    assert not difference(wanted, again), (
        "two runs without faults end differently: the mask is not complete"
    )
    points = points_of(max(count, other))
    outcomes: list[Outcome] = []
    spare = SPARE

    async def work(lane: Lane) -> None:
        nonlocal spare
        while points:
            point = points.pop(0)
            outcome = await crash(lane, scenario, point, wanted)
            if outcome is not None:
                outcomes.append(outcome)
            elif (spare := spare - 1) >= 0:
                points.append(point)

    await asyncio.gather(*(work(lane) for lane in team))
    return min(count, other), sorted(outcomes, key=lambda o: (o.point.k, o.point.after))


async def killed_at_each_write(scenario: Scenario, lanes: Lanes) -> None:
    """The test: whatever the write, the end is the same, and no pod was created more than without
    faults.
    """
    async with AsyncExitStack() as stack:
        team = [await stack.enter_async_context(lanes()) for _ in range(LANES)]
        least, outcomes = await enumerate_points(team, scenario)
    killed = [outcome for outcome in outcomes if outcome.write]
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    print(
        f"\n{scenario.name}: {least} writes at least, {len(killed)} points, wrong points"
        f" {len(wrong)}"
    )
    print(shown := table(outcome.row() for outcome in outcomes))
    # How often the status is written depends on the times of the pods: one write may be spared.
    assert len(killed) >= least - 1 > 0, (
        f"only {len(killed)} of {least + 1} points were reached\n{shown}"
    )
    assert not wrong, "\n".join([shown, *(f"{o.point}: {o.wrong}" for o in wrong)])


def table(rows: Iterable[tuple[object, ...]]) -> str:
    """Rows in columns, for evidence."""
    words = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in words) for i in range(len(words[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in words
    )
