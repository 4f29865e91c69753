"""For a single test: a cluster in virtual time with the real shell in it.

pytestmark = pytest.mark.virtual_time

async with simulated(job_body()) as world:
    await world.settle()
    assert world.cluster.job().status.phase == "Running"
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from dijob.core.options import Options
from unit.objects import Body, Target
from unit.operating import Operator
from unit.simulator import Cluster, Nodes
from unit.virtual import VirtualLoop
from unit.wire import Fault, Line, Request

ROUND_SECONDS = 0.5
QUIET_SECONDS = 30.0
LONGEST_SECONDS = 600.0
POD_1 = Target("pods", "ns", "job-1")


@dataclass
class World:
    """The cluster, its nodes, the way to its apiserver, and the operator."""

    cluster: Cluster
    nodes: Nodes
    line: Line
    operator: Operator
    namespaces: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    async def runs(self, seconds: float) -> None:
        """So many seconds pass, in which kubelets do what they do."""
        end = self.cluster.loop.time() + seconds
        while (left := end - self.cluster.loop.time()) > 1e-3:
            self.nodes.work()
            await asyncio.sleep(min(ROUND_SECONDS, left))
            self.check()

    async def operator_alone(self, seconds: float) -> None:
        """So many seconds pass, in which nobody does anything but the operator."""
        await asyncio.sleep(seconds)
        self.check()

    async def settle(self, quiet: float = QUIET_SECONDS) -> None:
        """Until nothing has been written for so many seconds."""
        begin = since = self.cluster.loop.time()
        version = self.cluster.server.version
        while self.cluster.loop.time() - since < quiet:
            await self.runs(ROUND_SECONDS)
            if self.cluster.server.version != version:
                version, since = self.cluster.server.version, self.cluster.loop.time()
            assert self.cluster.loop.time() - begin < LONGEST_SECONDS, (
                f"no rest: {self.line.calls[-10:]}"
            )

    def refuse(
        self, method: str, plural: str, status: int, times: int = 1, done: bool = False
    ) -> None:
        """The next calls of this kind are refused; `done`: they are carried out, and the answer is
        lost.
        """
        self.line.faults.append(Fault(method, plural, status, times, done))

    async def restart(self) -> None:
        """The operator is killed, and another one begins with an empty memory."""
        await self.operator.stop()
        self.operator = Operator(self.cluster, self.line, self.namespaces, self.options)
        self.operator.start()

    async def until(self, done: Callable[[], object], seconds: float = 60.0) -> float:
        """Until it is so, which must be within so many seconds. Gives how many it took."""
        begin = self.cluster.loop.time()
        while not done():
            assert self.cluster.loop.time() - begin < seconds, (
                f"not within {seconds} s: {self.line.calls[-10:]}"
            )
            await self.runs(ROUND_SECONDS)
        return self.cluster.loop.time() - begin

    async def running(self) -> None:
        """Until the job runs, and all about it is written down."""
        await self.until(lambda: self.phase == "Running")
        await self.settle(5)

    @property
    def phase(self) -> str:
        return self.cluster.job().status.phase

    def writes(self, method: str = "", plural: str = "") -> list[Request]:
        """The writes that were asked for so far."""
        return [call for call in self.line.calls if call.writes and call.about(method, plural)]

    def check(self) -> None:
        """Nothing in the operator has gone wrong for another reason than the apiserver's no."""
        if self.line.problems:
            raise self.line.problems[0]


@asynccontextmanager
async def simulated(
    *jobs: Body,
    namespaces: tuple[str, ...] = (),
    options: Options | None = None,
    starts: bool = True,
) -> AsyncIterator[World]:
    """A cluster with these jobs, and an operator that runs in it (unless the test starts it)."""
    cluster = Cluster(cast(VirtualLoop, asyncio.get_running_loop()))
    line = Line()
    world = World(
        cluster,
        Nodes(cluster),
        line,
        Operator(cluster, line, namespaces, options),
        namespaces,
        options or Options(),
    )
    for job in jobs:
        cluster.apply(job)
    if starts:
        world.operator.start()
    try:
        yield world
        world.check()
    finally:
        with suppress(asyncio.CancelledError):
            await world.operator.stop()
