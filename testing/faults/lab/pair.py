"""Two operators with leader election, each with its own connection to the apiserver."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ports import free_port

from faults.lab.audit import Audit, Write
from faults.lab.exchange import Asked, Fault
from faults.lab.lane import Lane
from faults.lab.proxy import Proxy
from faults.lab.running import Operator
from faults.lab.waits import SOON

JOBS = [f"job-{number}" for number in range(8)]
# The takeover times in docs/operations.md, measured from the moment when the leader ends.
SILENT_SECONDS, TOLD_SECONDS = 8.0, 1.0


@dataclass
class Pair:
    """Operator "a", the leader, and "b", the standby, each with its own connection to the
    apiserver.
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

    async def until_acts(self, name: str, seconds: float) -> float:
        async def missing() -> str:
            holder = await self.holder()
            return "" if holder == name else f"{holder or 'nobody'} acts"

        return await self.lane.until(f"{name} acts", missing, seconds)

    def with_effect(self, name: str, since: float) -> list[Write]:
        """Return the successful writes of one operator since a time (epoch seconds), excluding
        events.
        """
        done = (write for write in self._asked(name, since) if write.code < 300)
        return [write for write in done if write.kind != "events"]

    def refused(self, name: str, since: float) -> list[Write]:
        """Return the rejected writes of one operator since a time (epoch seconds)."""
        return [write for write in self._asked(name, since) if write.code >= 300]

    def _asked(self, name: str, since: float) -> Iterator[Write]:
        """Yield only this namespace's writes: other pairs have operators with the same names."""
        for one in self.audit.each():
            here = one.namespace == self.lane.namespace and one.identity == name
            if here and one.answered >= since:
                yield one


@asynccontextmanager
async def paired(lane: Lane, audit_log: Path, folder: Path) -> AsyncIterator[Pair]:
    """Yield a leader "a" and a standby "b" in place of the lane's operator."""
    await lane.operator.kill()
    lease = f"--lease={lane.namespace}/dijob"
    ports = {"a": free_port(), "b": free_port()}
    if lane.channel:
        await lane.channel.lead_to(*ports.values())

    def operator(proxy: Proxy, name: str) -> Operator:
        told: tuple[str, ...] = (lease, f"--identity={name}")
        if lane.channel:
            told += lane.channel.options(ports[name])
        log = folder / f"{name}.log"
        made = Operator(proxy.kubeconfig, log, (lane.namespace,), told)
        made.tasks = log.with_suffix(".tasks")
        return made

    way_folder = folder / "way"
    way_folder.mkdir()
    async with Proxy(lane.kube.access, way_folder) as way:
        a, b = operator(way, "a"), operator(lane.proxy, "b")
        lane.operator = a
        made = Pair(lane, a, b, way, Audit(audit_log))
        async with a:
            await made.until_acts("a", SOON)
            async with b:
                await lane.watching()
                await lane.until("b is ready", b.unready, SOON)
                try:
                    yield made
                finally:
                    way.through.set()


async def all_run(pair: Pair) -> None:
    """Check that all jobs run, and that no pod was created twice."""
    for name in JOBS:
        await pair.lane.reaches(name, "Running", 60)
    made = {name: pair.lane.census.of(name) for name in JOBS}
    assert made == dict.fromkeys(JOBS, 4), pair.lane.evidence()


async def start_until(pair: Pair, number: int, fault: Callable[[], None]) -> None:
    """Apply all jobs, and inject the fault when operator "a" sends its `number`-th write.

    Writes to Leases do not count.
    """
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
