"""Kills the operator (kill -9) before or after each write in a phase of a job, and checks the
result.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from faults.lab.exchange import Kill
from faults.lab.kube import Json
from faults.lab.lane import Lane, Lanes, difference

REPLICAS = 4
LANES = 3
CONVERGED_SECONDS = 120
# The operator delays a write by up to three seconds if it is not urgent. After this long without
# a write, no more writes follow.
QUIET_SECONDS = 4.0
# The number of points that may be repeated because kwok gave a pod a second address.
SPARE = 6
NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Scenario:
    """A phase of a job's life whose writes are enumerated."""

    name: str
    words: str
    trigger: Callable[[Lane, str], Awaitable[None]]
    phase: str | None  # None: the job is gone
    added: int
    started: bool = True  # starts with a running job
    spec: tuple[tuple[str, object], ...] = ()
    before: Callable[[Lane, str], Awaitable[None]] | None = None  # what happened to the job before

    async def prepare(self, lane: Lane, job: str) -> None:
        """Bring the job into the state in which the enumeration starts."""
        if not self.started:
            return
        await lane.apply(job, REPLICAS, **dict(self.spec))
        await lane.reaches(job, "Running")
        if self.before:
            await self.before(lane, job)


@dataclass(frozen=True)
class Point:
    """Where the operator is killed: at the k-th write (counted from 1), before it arrives or after
    it has been executed.
    """

    k: int
    after: bool

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.k}"


@dataclass(frozen=True)
class Outcome:
    """The result of one point: the write ("" if there were fewer writes), the seconds until the
    state was right, and what was wrong.
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
    """Run the phase without faults. Return the number of writes and the final state. A run in which
    kwok gave a pod a second address proves nothing, and is repeated.
    """
    for _ in range(SPARE):
        if (found := await undisturbed(lane, scenario)) is not None:
            return found
    raise AssertionError(f"kwok gave pods second addresses in all {SPARE} runs: {lane.evidence()}")


async def undisturbed(lane: Lane, scenario: Scenario) -> tuple[int, Json] | None:
    """Run the phase once without faults. Return None if kwok gave a pod a second address."""
    job = f"{scenario.name}-{next(NUMBERS)}"
    # As in `crash`, the phase is triggered without a pause. A pause could change the number of
    # status writes, which depends on how long ago the previous status was written.
    await scenario.prepare(lane, job)
    before = len(lane.proxy.writes)
    await scenario.trigger(lane, job)
    # A phase that begins with a running job may not have begun yet.
    await lane.until(f"all pods of {job}", partial(fewer, lane, job, scenario.added))
    await lane.reaches(job, scenario.phase)
    await quiet(lane)
    if scenario.phase == "Running" and await unready(lane, job):
        # On a busy machine, a pod can need longer than QUIET_SECONDS to start. The operator writes
        # nothing in the meantime.
        await lane.until(f"{job} is whole", partial(unready, lane, job))
        await quiet(lane)
    if scenario.phase:
        await lane.counted(job)
    count, state = len(lane.proxy.writes) - before, await lane.snapshot(job)
    moved = lane.census.moved_of(job)
    if not moved:
        assert lane.census.of(job) == scenario.added, f"{lane.census.added}; {lane.evidence()}"
    await lane.remove(job)
    return None if moved else (count, state)


async def fewer(lane: Lane, job: str, count: int) -> str:
    """Return how many pods of a job were created if they are fewer than `count`, or ""."""
    made = lane.census.of(job)
    return "" if made >= count else f"{made} of {count} pods"


async def unready(lane: Lane, job: str) -> str:
    """Return why not all ranks of a job are Ready with the newest peer list, or ""."""
    ready = await lane.condition(job, "PeersReady")
    return "" if ready.get("status") == "True" else f"PeersReady: {ready}"


async def quiet(lane: Lane) -> None:
    """Wait until there has been no write for a while."""
    last, since = len(lane.proxy.writes), time.monotonic()

    async def restless() -> str:
        nonlocal last, since
        if len(lane.proxy.writes) != last:
            last, since = len(lane.proxy.writes), time.monotonic()
        return "" if time.monotonic() - since >= QUIET_SECONDS else "there are writes"

    await lane.until("no more writes", restless, 30)


async def crash(lane: Lane, scenario: Scenario, point: Point, wanted: Json) -> Outcome | None:
    """Run one point. Return None if the run proves nothing, because kwok gave a pod a second
    address.
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
    """Restart the operator after the kill, and wait for the wanted state. Return "" or the
    difference.
    """
    restarted = False

    async def unlike() -> str:
        nonlocal restarted
        if kill.done.is_set() and not restarted:
            await lane.operator.kill()
            lane.proxy.revive()
            await lane.operator.start()
            restarted = True
            # If the final state was reached before the kill, the next operator must keep it. (A job
            # that does not exist in the final state may have been deleted before this point.)
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
    """Return the points before each write and after the last one.

    The point after the k-th write is the same as the point before the next write: k writes are
    stored, and the operator's memory is lost.
    """
    return [*(Point(k, after=False) for k in range(1, writes + 1)), Point(writes, after=True)]


async def enumerate_points(team: list[Lane], scenario: Scenario) -> tuple[int, list[Outcome]]:
    """Run all points of a scenario, distributed over the lanes. Return the number of writes in a
    run without faults, and the outcomes.
    """
    references = await asyncio.gather(*(reference(lane, scenario) for lane in team[:2]))
    (count, wanted), (other, again) = references
    unmasked = difference(wanted, again)
    assert not unmasked, "\n".join(
        ["two runs without faults end differently: the mask is not complete", *unmasked]
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
    """Check that a kill at any write leads to the same state, and creates no additional pods."""
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
    # The number of status writes depends on the timing of the pods, so one may be missing.
    assert len(killed) >= least - 1 > 0, (
        f"only {len(killed)} of {least + 1} points were reached\n{shown}"
    )
    assert not wrong, "\n".join([shown, *(f"{o.point}: {o.wrong}" for o in wrong)])


def table(rows: Iterable[tuple[object, ...]]) -> str:
    """Format rows in columns for a message."""
    words = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in words) for i in range(len(words[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in words
    )
