"""A period in the life of four jobs, with or without a fault.

The final state without faults is the oracle: with every fault, the jobs must reach the same state
(as in Sieve, OSDI'22).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from faults.lab.crashes import quiet
from faults.lab.kube import Json, jobs, pods, services
from faults.lab.lane import Lane, difference
from faults.lab.waits import renewed
from faults.simulated_nodes.rows import Outcome
from faults.simulated_nodes.stage import Stage, kept_running

# The job grows by only one rank. With two new ranks, the number of peer lists would depend on the
# operator's clock: an operator whose clock is ahead does not wait for the second new rank.
RANKS, GROWN = 4, 5
ELASTIC = {"minReplicas": 1, "maxReplicas": 8, "replicas": RANKS}
# "a" loses a rank, "b" is new, "c" grows, "d" is deleted.
JOBS = ("a", "b", "c", "d")
CONVERGED_SECONDS = 240.0
COUNTED_SECONDS = 30.0
# A run is repeated if kwok has given a pod a second address, which is a defect of kwok. This is the
# maximum number of runs.
TRIES = 3

Trouble = Callable[[Lane], AbstractAsyncContextManager[None]]


@dataclass(frozen=True)
class End:
    """The jobs with their children, the counts of created and deleted objects, and the number of
    writes.
    """

    states: dict[str, Json]
    counts: Counter[str]
    writes: int


@dataclass(frozen=True)
class Lived:
    """What was measured in a run with a fault.

    `first` is the number of seconds until the new job has its first pod, and `whole` the number of
    seconds until the jobs reach the final state. Both durations are measured from the beginning of
    the fault. If the fault lasts for a fixed time, they are measured from its end. `writes` and
    `codes` are the operator's writes and exit codes. `wrong` lists the differences from the final
    state without faults.
    """

    first: float
    whole: float
    writes: int
    faults: int
    codes: tuple[int, ...]
    wrong: tuple[str, ...]

    def outcome(self, figure: float) -> Outcome:
        """Return the outcome of a recipe that measures `figure`."""
        ended = f"; operator exit codes: {', '.join(map(str, self.codes))}" if self.codes else ""
        seen = f"after {self.whole:.1f} s, the final state was the same as without faults{ended}"
        return Outcome(figure, seen, self.wrong)


async def prepare(lane: Lane) -> None:
    """Start the three jobs that run before the fault."""
    await lane.apply("a", RANKS)
    await lane.apply("c", RANKS, **ELASTIC)
    await lane.apply("d", 2)
    for name in ("a", "c", "d"):
        await lane.reaches(name, "Running")
    await quiet(lane)


async def happen(lane: Lane) -> None:
    """Change all four jobs: one loses a rank, one grows, one is created, one is deleted."""
    await lane.kube.delete(pods(lane.namespace, "a-1"))
    await lane.kube.patch(jobs(lane.namespace, "c"), {"spec": {"replicas": GROWN}})
    await lane.apply("b", RANKS)
    await lane.remove("d")


async def states(lane: Lane) -> dict[str, Json]:
    return {name: await lane.snapshot(name) for name in JOBS}


async def end(stage: Stage) -> End:
    """Return the final state of a run without faults. Raises AssertionError if a second run ends
    differently.
    """

    async def run() -> End:
        async with stage.lane() as lane:
            await prepare(lane)
            before = len(lane.proxy.writes)
            await happen(lane)
            await _without_faults(lane)
            await quiet(lane)
            # The operator treats a second address of a pod as a loss. This changes the expected
            # state.
            assert not lane.census.moved, "kwok has moved a pod"
            writes = len(lane.proxy.writes) - before
            return End(await states(lane), Counter(lane.census.counts), writes)

    # If two runs without faults differed, a comparison with a run with a fault would mean nothing.
    one, other = await asyncio.gather(run(), run())
    assert not (found := differences(one, other.states, other.counts)), f"not the same: {found}"
    return one


async def _without_faults(lane: Lane) -> None:
    """Wait until the changes are complete, without comparing with an earlier run."""
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
    """Describe how a final state and the counts of objects differ from the expected ones."""
    counted = [
        f"{what} {counts[what]} times, not {wanted.counts[what]}"
        for what in sorted(wanted.counts.keys() | counts.keys())
        if counts[what] != wanted.counts[what]
    ]
    return [*difference(wanted.states, found), *counted]


async def live(stage: Stage, trouble: Trouble, seconds: float | None = None) -> Lived:
    """Run the period with a fault that begins before the jobs are changed. The fault ends `seconds`
    after these changes, or at the end of the period if `seconds` is None.
    """
    wanted = await stage.once("end", lambda: end(stage))
    # The run is repeated only for kwok's defect, never for a wrong result.
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
    # Both durations are measured from the same moment.
    whole = time.monotonic() - begin
    return first, whole, len(lane.proxy.writes) - before, lane.proxy.faults


async def _first(lane: Lane, begin: float) -> float:
    """Return the seconds from `begin` to the new job's first pod."""

    async def missing() -> str:
        return "" if lane.census.of("b") else "no pod of b"

    await lane.until("first pod of b", missing, CONVERGED_SECONDS)
    return time.monotonic() - begin


async def _converged(lane: Lane, wanted: End) -> None:
    async def missing() -> str:
        return "\n".join(difference(wanted.states, await states(lane)))

    await lane.until("the end without faults", missing, CONVERGED_SECONDS)


async def _wrong(lane: Lane, wanted: End) -> tuple[str, ...]:
    """Describe the differences that remain after the operator has stopped writing."""
    await quiet(lane)

    async def missing() -> str:
        return "\n".join(differences(wanted, await states(lane), lane.census.counts))

    try:
        await lane.until("the same counts", missing, COUNTED_SECONDS)
    except AssertionError:
        # The counts did not become equal, so the difference is final.
        return tuple(differences(wanted, await states(lane), lane.census.counts))
    return ()
