"""Two operators with leader election: takeovers, and late writes of a former leader."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from cluster import Cluster
from faults.lab.audit import Write
from faults.lab.exchange import Fault
from faults.lab.lane import Lane
from faults.lab.pair import SILENT_SECONDS, Pair, all_run, paired, start_until
from faults.lab.waits import SOON, renewed, running

pytestmark = pytest.mark.apiserver

# The bound of docs/operations.md for this test, because the machine may be busy.
BUSY_TOLD_SECONDS = 3.0
# The faults of `make test`: the request after which each begins. The others run in `make long`.
FAULTS = {("stopped", 30), ("cut off", 60)}


@pytest.fixture
async def pair(lane: Lane, plane: Cluster, tmp_path: Path) -> AsyncIterator[Pair]:
    async with paired(lane, plane.audit_log, tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("which", "seconds"),
    [(signal.SIGKILL, SILENT_SECONDS), (signal.SIGTERM, BUSY_TOLD_SECONDS)],
    ids=["kill -9", "SIGTERM"],
)
async def test_a_standby_takes_over(pair: Pair, which: signal.Signals, seconds: float) -> None:
    lane = pair.lane
    await running(lane, "x")
    assert pair.with_effect("b", 0) == []
    lane.operator = pair.b
    pair.a.signal(which)
    await lane.kube.delete(f"/api/v1/namespaces/{lane.namespace}/pods/x-1")
    took = await pair.until_acts("b", SOON)
    print(f"MEASURED seconds from {which.name} until the other operator acts: {took:.2f}")
    await renewed(lane, "x")
    assert took <= seconds


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        pytest.param(fault, number, marks=() if (fault, number) in FAULTS else pytest.mark.long)
        for fault in ("stopped", "cut off")
        for number in (6, 30, 60)
    ],
)
async def test_late_writes_of_a_former_leader_have_no_effect(
    pair: Pair, fault: str, number: int
) -> None:
    """The leader is stopped or cut off during a start, and comes back when the standby has done the
    work. Its late writes are rejected, and it ends.
    """
    faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "stopped": (lambda: pair.a.signal(signal.SIGSTOP), lambda: pair.a.signal(signal.SIGCONT)),
        "cut off": (pair.way.through.clear, pair.way.through.set),
    }
    begin, end = faults[fault]
    await start_until(pair, number, begin)
    pair.lane.operator = pair.b
    try:
        took = await pair.until_acts("b", SOON)
        await all_run(pair)
    finally:
        back = time.time()
        end()

    async def goes_on() -> str:
        return "" if pair.a.died() else "it goes on"

    def late() -> list[Write]:
        return [write for write in pair.refused("a", back) if write.kind != "leases"]

    async def none_late() -> str:
        # Otherwise there are no late writes, and the test proves nothing. The proxy may still have
        # them when the operator has ended.
        return "" if late() or fault == "stopped" else "no late writes"

    await pair.lane.until("the end of the one before", goes_on, SOON)
    await pair.lane.until("late writes", none_late, SOON)
    refused = late()
    print(f"MEASURED seconds until the other operator acts: {took:.1f}; refused: {len(refused)}")
    assert pair.with_effect("a", back) == []
    await all_run(pair)
    assert await pair.holder() == "b"


async def test_an_outage_of_the_apiserver_causes_no_takeover_and_no_restart(
    pair: Pair,
) -> None:
    """Both operators get 503 for longer than the lease duration. Then "a" continues to lead."""
    await running(pair.lane, "x")
    for way in (pair.way, pair.lane.proxy):
        way.answer = lambda asked: Fault(503)
    await asyncio.sleep(12)  # nothing can be polled during the outage
    pair.lane.proxy.answer = pair.way.answer = lambda asked: None
    await pair.lane.kube.delete(f"/api/v1/namespaces/{pair.lane.namespace}/pods/x-1")
    await renewed(pair.lane, "x", 40)
    assert await pair.holder() == "a"
    assert pair.with_effect("b", 0) == []
    assert (pair.a.died(), pair.b.died()) == ("", "")
