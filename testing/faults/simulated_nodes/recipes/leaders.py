"""Recipes about two operators: takeovers, and late writes of a former leader."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from ports import free_port

from faults.lab.exchange import Fault
from faults.lab.lane import Lane
from faults.lab.pair import SILENT_SECONDS, TOLD_SECONDS, Pair, all_run, paired, start_until
from faults.lab.running import Operator
from faults.lab.waits import SOON, renewed, running
from faults.simulated_nodes.life import end, live
from faults.simulated_nodes.recipes.network import DIFFERENCES
from faults.simulated_nodes.rows import Outcome, Recipe
from faults.simulated_nodes.stage import Stage

TAKE_OVER = "seconds until the standby takes over"
# The leader is stopped at this write, while it is starting jobs. It stays stopped for longer than
# any timeout.
WRITE, STOPPED_SECONDS = 30, 60.0


@asynccontextmanager
async def pair(stage: Stage) -> AsyncIterator[Pair]:
    """Operator "a" is the leader, "b" the standby."""
    async with stage.lane() as lane, paired(lane, stage.plane.audit_log, stage.own_folder()) as two:
        yield two


async def taken_over(which: signal.Signals, stage: Stage) -> Outcome:
    """End the leader and delete a pod at the same time, so that only the standby can notice the
    loss.
    """
    async with pair(stage) as two:
        lane = two.lane
        await running(lane, "x")
        # From here on, the lane's evidence comes from the standby, which takes over.
        lane.operator = two.b
        two.a.signal(which)
        await lane.kube.delete(f"/api/v1/namespaces/{lane.namespace}/pods/x-1")
        took = await two.until_acts("b", SOON)
        healed = await renewed(lane, "x")
        return Outcome(took, f"the lost rank recovered {healed:.1f} s later")


async def comes_back(fault: str, stage: Stage) -> Outcome:
    """Stop the leader or cut it off while it is starting jobs. It continues after the takeover, and
    its late writes must have no effect.
    """
    async with pair(stage) as two:
        ways: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "stopped": (lambda: two.a.signal(signal.SIGSTOP), lambda: two.a.signal(signal.SIGCONT)),
            "cut": (two.way.through.clear, two.way.through.set),
        }
        stop, go_on = ways[fault]
        await start_until(two, WRITE, stop)
        begin = time.monotonic()
        two.lane.operator = two.b
        try:
            took = await two.until_acts("b", SOON)
            await all_run(two)
            await asyncio.sleep(max(0.0, STOPPED_SECONDS - (time.monotonic() - begin)))
        finally:
            back = time.time()
            go_on()
        await asyncio.wait_for(two.a.ended(), SOON)
        await all_run(two)
        effects = two.with_effect("a", back)
        # The former leader's attempts to renew the Lease are rejected too, but that is not what is
        # tested.
        refused = [write for write in two.refused("a", back) if write.kind != "leases"]
        seen = f"the standby took over after {took:.1f} s; {len(refused)} writes were rejected"
        wrong = tuple(map(str, effects))
        # With 2 s of tolerance for a busy machine.
        late = (f"{took:.1f} s until the standby took over",) if took > SILENT_SECONDS + 2 else ()
        return Outcome(len(effects), seen, wrong + late)


@asynccontextmanager
async def beside(lane: Lane) -> AsyncIterator[None]:
    """Run a second operator on the same jobs, without leader election between the two operators."""
    options: tuple[str, ...] = ()
    log = lane.operator.log.with_suffix(".second")
    if lane.channel:
        port = free_port()
        options = lane.channel.options(port)
        await lane.channel.lead_to(lane.channel.port, port)
    async with Operator(lane.proxy.kubeconfig, log, (lane.namespace,), options) as second:
        # `reconciled` asks `lane.operator`, so `lane.operator` is the second operator during the
        # call.
        before = lane.operator
        lane.operator = second
        await lane.reconciled(3)
        lane.operator = before
        yield
        assert not second.died(), second.evidence()


async def both_act(stage: Stage) -> Outcome:
    lived = await live(stage, beside)
    usual = (await stage.once("end", lambda: end(stage))).writes
    outcome = lived.outcome(len(lived.wrong))
    return Outcome(
        outcome.figure,
        f"{outcome.seen}; {lived.writes} writes ({usual} with one operator)",
        outcome.wrong,
    )


async def nobody_takes_over(stage: Stage) -> Outcome:
    """The apiserver rejects both operators for longer than a lease lasts."""
    async with pair(stage) as two:
        await running(two.lane, "x")
        for way in (two.way, two.lane.proxy):
            way.answer = lambda asked: Fault(503)
        await asyncio.sleep(12)  # the state cannot be polled during the outage
        two.lane.proxy.answer = two.way.answer = lambda asked: None
        await two.lane.kube.delete(f"/api/v1/namespaces/{two.lane.namespace}/pods/x-1")
        healed = await renewed(two.lane, "x", 60)
        changes = [] if await two.holder() == "a" else [f"{await two.holder()} acts"]
        ends = [died for died in (two.a.died(), two.b.died()) if died]
        effects = two.with_effect("b", 0)
        wrong = (*changes, *ends, *map(str, effects))
        return Outcome(
            len(wrong), f"a rank that was lost after these 12 s recovered in {healed:.1f} s", wrong
        )


STALE = "effective writes of the former leader"
RECIPES = (
    Recipe(
        "T12",
        "both-act",
        "two operators without leader election write to the same jobs",
        DIFFERENCES,
        0,
        both_act,
    ),
    Recipe(
        "T13",
        "leader-killed",
        "two operators with leader election; kill -9 of the leader",
        TAKE_OVER,
        SILENT_SECONDS,
        partial(taken_over, signal.SIGKILL),
    ),
    Recipe(
        "T13",
        "leader-ended",
        "the same with SIGTERM",
        TAKE_OVER,
        TOLD_SECONDS,
        partial(taken_over, signal.SIGTERM),
    ),
    Recipe(
        "T13",
        "leader-stopped",
        "the same with SIGSTOP in the middle of a start, and SIGCONT 60 s later",
        STALE,
        0,
        partial(comes_back, "stopped"),
    ),
    Recipe(
        "T13",
        "leader-cut",
        "the same, but the leader's network is cut for 60 s",
        STALE,
        0,
        partial(comes_back, "cut"),
    ),
    Recipe(
        "T13",
        "leader-503",
        "the same, but both get 503 for 12 s",
        "takeovers, exits, and writes of the standby",
        0,
        nobody_takes_over,
    ),
)
