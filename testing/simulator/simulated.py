"""A simulated cluster with the real controller, in virtual time, for single tests.

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

from simulator.cluster import Cluster, Nodes
from simulator.connection import Fault, Line, Request
from simulator.objects import Body, Target
from simulator.operator_process import Operator
from simulator.virtual import VirtualLoop

ROUND_SECONDS = 0.5
QUIET_SECONDS = 30.0
LONGEST_SECONDS = 600.0
POD_1 = Target("pods", "ns", "job-1")


@dataclass
class World:
    """The cluster, its nodes, the connection to its apiserver, and the operator."""

    cluster: Cluster
    nodes: Nodes
    line: Line
    operator: Operator
    namespaces: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)

    async def runs(self, seconds: float) -> None:
        """Let time pass, with running kubelets."""
        end = self.cluster.loop.time() + seconds
        while (left := end - self.cluster.loop.time()) > 1e-3:
            self.nodes.work()
            await asyncio.sleep(min(ROUND_SECONDS, left))
            self.check()

    async def operator_alone(self, seconds: float) -> None:
        """Let time pass while only the operator runs."""
        await asyncio.sleep(seconds)
        self.check()

    async def settle(self, quiet: float = QUIET_SECONDS) -> None:
        """Run until nothing has been written for `quiet` seconds."""
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
        """Make the next requests of a kind fail. With `done`, they are executed, and only their
        responses are lost.
        """
        self.line.faults.append(Fault(method, plural, status, times, done))

    async def restart(self) -> None:
        """Kill the operator, and start another one with an empty memory."""
        await self.operator.stop()
        self.operator = Operator(self.cluster, self.line, self.namespaces, self.options)
        self.operator.start()

    async def until(self, done: Callable[[], object], seconds: float = 60.0) -> float:
        """Run until a condition is true, within `seconds`. Return how many seconds it took."""
        begin = self.cluster.loop.time()
        while not done():
            assert self.cluster.loop.time() - begin < seconds, (
                f"not within {seconds} s: {self.line.calls[-10:]}"
            )
            await self.runs(ROUND_SECONDS)
        return self.cluster.loop.time() - begin

    async def running(self) -> None:
        """Run until the job is Running, and nothing is left to write."""
        await self.until(lambda: self.phase == "Running")
        await self.settle(5)

    @property
    def phase(self) -> str:
        return self.cluster.job().status.phase

    def writes(self, method: str = "", plural: str = "") -> list[Request]:
        """Return the writes so far."""
        return [call for call in self.line.calls if call.writes and call.about(method, plural)]

    def check(self) -> None:
        """Check that the operator had no failures other than API errors."""
        if self.line.problems:
            raise self.line.problems[0]


@asynccontextmanager
async def simulated(
    *jobs: Body,
    namespaces: tuple[str, ...] = (),
    options: Options | None = None,
    starts: bool = True,
) -> AsyncIterator[World]:
    """Yield a cluster with these jobs, and an operator. If `starts` is false, the operator is not
    running yet, and the test must start it.
    """
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
