"""A stretch of four jobs' life, and its end without faults: what every fault has to lead to as well
(Sieve's oracle, OSDI'22).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from faultbench.rows import Outcome
from faultbench.stage import Stage, kept_running
from faults.crashes import quiet
from faults.kube import Json, jobs, pods, services
from faults.lane import Lane, difference
from faults.waits import renewed

# By one: an operator whose clock is ahead waits for no other new rank, and so two make two lists.
RANKS, GROWN = 4, 5
ELASTIC = {"minReplicas": 1, "maxReplicas": 8, "replicas": RANKS}
# "a" loses a rank, "b" is new, "c" grows, "d" is deleted.
JOBS = ("a", "b", "c", "d")
CONVERGED_SECONDS = 240.0
COUNTED_SECONDS = 30.0
# So often is a run repeated in which kwok gave a pod a second address, which is no fault of ours.
TRIES = 3

Trouble = Callable[[Lane], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class End:
    """The jobs with their children, what came and went on the way, and the writes that it took."""

    states: dict[str, Json]
    counts: Counter[str]
    writes: int


@dataclass(frozen=True)
class Lived:
    """How a stretch with a fault went: seconds to the first pod of the new job, and to the end,
    from the beginning of the fault or, where that ends by itself, from its end; the operator's
    writes; its exit codes; and how the end differs from that without faults.
    """

    first: float
    whole: float
    writes: int
    faults: int
    codes: tuple[int, ...]
    wrong: tuple[str, ...]

    def outcome(self, figure: float) -> Outcome:
        """As a row has it, with one of the figures."""
        ended = (
            f", the operator exited with {', '.join(map(str, self.codes))}" if self.codes else ""
        )
        seen = f"same result as without faults after {self.whole:.1f} s{ended}"
        return Outcome(figure, seen, self.wrong)


async def prepare(lane: Lane) -> None:
    """Three jobs that run."""
    await lane.apply("a", RANKS)
    await lane.apply("c", RANKS, **ELASTIC)
    await lane.apply("d", 2)
    for name in ("a", "c", "d"):
        await lane.reaches(name, "Running")
    await quiet(lane)


async def happen(lane: Lane) -> None:
    """What users do, and a node: a rank is lost, a job grows, one comes, one goes."""
    await lane.kube.delete(pods(lane.namespace, "a-1"))
    await lane.kube.patch(jobs(lane.namespace, "c"), {"spec": {"replicas": GROWN}})
    await lane.apply("b", RANKS)
    await lane.remove("d")


async def states(lane: Lane) -> dict[str, Json]:
    return {name: await lane.snapshot(name) for name in JOBS}


async def end(stage: Stage) -> End:
    """The end without faults: two runs, which have to end in the same way."""

    async def run() -> End:
        async with stage.lane() as lane:
            await prepare(lane)
            before = len(lane.proxy.writes)
            await happen(lane)
            await _without_faults(lane)
            await quiet(lane)
            assert not lane.census.moved, "kwok has moved a pod"
            writes = len(lane.proxy.writes) - before
            return End(await states(lane), Counter(lane.census.counts), writes)

    one, other = await asyncio.gather(run(), run())
    assert not (found := differences(one, other.states, other.counts)), f"not the same: {found}"
    return one


async def _without_faults(lane: Lane) -> None:
    """Wait for all that has to come of what has happened."""
    await lane.reaches("d", None)

    async def left() -> str:
        service = await lane.kube.find(services(lane.namespace, "d"))
        return ", ".join(await lane.pods("d")) + (" and its service" if service else "")

    await lane.until("nothing is left of d", left, CONVERGED_SECONDS)
    await lane.reaches("b", "Running")
    await renewed(lane, "a", CONVERGED_SECONDS)

    async def missing() -> str:
        status, peers = await lane.status("c"), await lane.condition("c", "PeersReady")
        seen = (status.get("readyReplicas"), peers.get("status"), peers.get("reason"))
        return "" if seen == (GROWN, "True", "AllRanksReady") else str(seen)

    await lane.until("c has grown", missing, CONVERGED_SECONDS)


def differences(wanted: End, found: dict[str, Json], counts: Counter[str]) -> list[str]:
    """How an end, and what came and went before it, differ from the wanted one."""
    counted = [
        f"{what} {counts[what]} times, not {wanted.counts[what]}"
        for what in sorted(wanted.counts.keys() | counts.keys())
        if counts[what] != wanted.counts[what]
    ]
    return [*difference(wanted.states, found), *counted]


async def live(stage: Stage, trouble: Trouble, seconds: float | None = None) -> Lived:
    """The stretch with a fault from before its events on: for so many seconds, or to the end."""
    wanted = await stage.once("end", lambda: end(stage))
    for _ in range(TRIES):
        async with stage.lane() as lane, kept_running(lane.operator) as codes:
            await prepare(lane)
            lived = await _with(lane, wanted, trouble, seconds)
            if not lane.census.moved:
                return Lived(*lived, tuple(codes[:]), await _wrong(lane, wanted))
    raise AssertionError(f"kwok has moved pods in {TRIES} runs")


async def _with(
    lane: Lane, wanted: End, trouble: Trouble, seconds: float | None
) -> tuple[float, float, int, int]:
    before = len(lane.proxy.writes)
    if seconds is None:
        async with trouble(lane):
            begin = time.monotonic()
            await happen(lane)
            first = await _first(lane, begin)
            await _converged(lane, wanted)
    else:
        async with trouble(lane):
            await happen(lane)
            await asyncio.sleep(seconds)
        begin = time.monotonic()
        first = await _first(lane, begin)
        await _converged(lane, wanted)
    whole = time.monotonic() - begin
    return first, whole, len(lane.proxy.writes) - before, lane.proxy.faults


async def _first(lane: Lane, begin: float) -> float:
    """Seconds from `begin` to the new job's first pod."""

    async def missing() -> str:
        return "" if lane.census.of("b") else "no pod of b"

    await lane.until("first pod of b", missing, CONVERGED_SECONDS)
    return time.monotonic() - begin


async def _converged(lane: Lane, wanted: End) -> None:
    async def missing() -> str:
        return "\n".join(difference(wanted.states, await states(lane)))

    await lane.until("the end without faults", missing, CONVERGED_SECONDS)


async def _wrong(lane: Lane, wanted: End) -> tuple[str, ...]:
    """What differs once nothing more is written."""
    await quiet(lane)

    async def missing() -> str:
        return "\n".join(differences(wanted, await states(lane), lane.census.counts))

    try:
        await lane.until("the same counts", missing, COUNTED_SECONDS)
    except AssertionError:
        return tuple(differences(wanted, await states(lane), lane.census.counts))
    return ()
