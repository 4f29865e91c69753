"""Two operators with one Lease: one takes over from the other, and what the one before still sends
has no effect.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from cluster import Cluster
from faults.audit import Audit, Write
from faults.kube import Kube
from faults.lane import Lane
from faults.proxy import Asked, Fault, Proxy
from faults.running import Operator
from faults.waits import SOON, renewed, running

pytestmark = pytest.mark.apiserver

JOBS = [f"job-{number}" for number in range(8)]
# docs/operations.md; each is measured from the moment at which the one that acts goes.
SILENT_SECONDS, TOLD_SECONDS = 8.0, 1.0


@dataclass
class Pair:
    """Operator "a", which acts, and "b", which waits; each has a way to the apiserver of its
    own.
    """

    lane: Lane
    a: Operator
    b: Operator
    way: Proxy
    audit: Audit

    async def holder(self) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.lane.namespace}/leases/dijob"
        lease = await self.lane.kube.find(path) or {}
        return str((lease.get("spec") or {}).get("holderIdentity") or "")

    async def b_is_ready(self) -> str:
        try:
            async with aiohttp.request("GET", f"http://127.0.0.1:{self.b.port}/readyz") as answer:
                return "" if answer.status == 200 else await answer.text()
        except aiohttp.ClientError as error:
            return str(error)

    async def until_acts(self, name: str, seconds: float) -> float:
        async def missing() -> str:
            holder = await self.holder()
            return "" if holder == name else f"{holder or 'nobody'} acts"

        return await self.lane.until(f"{name} acts", missing, seconds)

    def with_effect(self, name: str, since: float) -> list[Write]:
        """What one of them has changed since a moment (epoch seconds); events are told, and change
        nothing.
        """
        done = (write for write in self._asked(name, since) if write.code < 300)
        return [write for write in done if write.kind != "events"]

    def refused(self, name: str, since: float) -> list[Write]:
        """What one of them has tried since a moment."""
        return [write for write in self._asked(name, since) if write.code >= 300]

    def _asked(self, name: str, since: float) -> Iterator[Write]:
        writes = self.audit.each()
        return (one for one in writes if one.identity == name and one.answered >= since)


@pytest.fixture
async def pair(lane: Lane, kube: Kube, plane: Cluster, tmp_path: Path) -> AsyncIterator[Pair]:
    await lane.operator.kill()
    lease = f"--lease={lane.namespace}/dijob"

    def operator(proxy: Proxy, name: str) -> Operator:
        told = (lease, f"--identity={name}")
        return Operator(proxy.kubeconfig, tmp_path / f"{name}.log", (lane.namespace,), told)

    folder = tmp_path / "way"
    folder.mkdir()
    async with Proxy(kube.access, folder) as way:
        a, b = operator(way, "a"), operator(lane.proxy, "b")
        lane.operator = a
        made = Pair(lane, a, b, way, Audit(plane.audit_log))
        async with a:
            await made.until_acts("a", SOON)
            async with b:
                await lane.watching()
                await lane.until("b is ready", made.b_is_ready, SOON)
                try:
                    yield made
                finally:
                    way.through.set()


async def all_run(pair: Pair) -> None:
    """All jobs run, and no pod of theirs was made twice."""
    for name in JOBS:
        await pair.lane.reaches(name, "Running", 60)
    made = {name: pair.lane.census.of(name) for name in JOBS}
    assert made == dict.fromkeys(JOBS, 4), pair.lane.evidence()


@pytest.mark.parametrize(
    ("which", "seconds"),
    [(signal.SIGKILL, SILENT_SECONDS), (signal.SIGTERM, TOLD_SECONDS)],
    ids=["kill -9", "SIGTERM"],
)
async def test_the_one_that_waits_takes_over(
    pair: Pair, which: signal.Signals, seconds: float
) -> None:
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


async def start_until(pair: Pair, number: int, fault: Callable[[], None]) -> None:
    """Apply all jobs; the fault comes with the write of "a" that has this number."""
    seen, done = 0, asyncio.Event()

    def count(asked: Asked) -> Fault | None:
        nonlocal seen
        seen += asked.write and "/leases" not in asked.path
        if seen == number and not done.is_set():
            fault()
            done.set()
        return None

    pair.way.answer = count
    for name in JOBS:
        await pair.lane.apply(name)
    await asyncio.wait_for(done.wait(), SOON)


@pytest.mark.parametrize("number", [6, 30, 60])
@pytest.mark.parametrize("fault", ["stopped", "cut off"])
async def test_what_the_one_before_still_sends_has_no_effect(
    pair: Pair, fault: str, number: int
) -> None:
    """It is stopped, or cut off, in the middle of a start, and comes back when the other one has
    done its work: what it had in hand then is refused, and it ends.
    """
    faults: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
        "stopped": (lambda: pair.a.signal(signal.SIGSTOP), lambda: pair.a.signal(signal.SIGCONT)),
        "cut off": (pair.way.through.clear, pair.way.through.set),
    }
    begin, end = faults[fault]
    await start_until(pair, number, begin)
    pair.lane.operator = pair.b
    try:
        took = await pair.until_acts("b", SILENT_SECONDS + 2)
        await all_run(pair)
    finally:
        back = time.time()
        end()

    async def goes_on() -> str:
        return "" if pair.a.died() else "it goes on"

    await pair.lane.until("the end of the one before", goes_on, 10)
    refused = [write for write in pair.refused("a", back) if write.kind != "leases"]
    print(f"MEASURED seconds until the other operator acts: {took:.1f}; refused: {len(refused)}")
    assert pair.with_effect("a", back) == []
    # Else nothing was under way, and nothing is shown.
    assert refused or fault == "stopped"
    await all_run(pair)
    assert await pair.holder() == "b"


async def test_an_apiserver_that_is_away_makes_nobody_take_over_and_nobody_begin_anew(
    pair: Pair,
) -> None:
    """Both get 503 for longer than the lease lasts; then "a" goes on."""
    await running(pair.lane, "x")
    for way in (pair.way, pair.lane.proxy):
        way.answer = lambda asked: Fault(503)
    await asyncio.sleep(12)  # what is away cannot be polled
    pair.lane.proxy.answer = pair.way.answer = lambda asked: None
    await pair.lane.kube.delete(f"/api/v1/namespaces/{pair.lane.namespace}/pods/x-1")
    await renewed(pair.lane, "x", 40)
    assert await pair.holder() == "a"
    assert pair.with_effect("b", 0) == []
    assert (pair.a.died(), pair.b.died()) == ("", "")
