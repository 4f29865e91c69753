"""Measures how the cost of a start grows with the number of jobs, and with the pods of one job:
python bench/full.py.

It also measures changes to running jobs: one grows, a tenth of the pods is deleted, the jobs are at
rest for minutes, and the operator is killed. The largest shapes are also measured with the channel
in place of gates.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path

from changes import lose, lost_of, scale
from cluster import Cluster
from entrants import Running, race_floor, started
from faults.lab.audit import Audit
from faults.lab.kube import Access, Kube
from faults.lab.load import quiet
from faults.lab.restarts import Crowd, Restart
from measured import CROWD, Change, Rest, Result, Shape, Starts
from page import show
from place import Place, own_plane, until_served
from report import Machine, Report, Start
from tables import full_blocks, growth_row

# Jobs created per second
RATE = 50
WARM = Shape(5, 4)
SHAPES = ("20x4", "100x4", "400x4", "1000x4", "1x4", "1x64", "1x200", "1x1000", "1x1500")
# The shapes that also grow, or lose a tenth of their pods. CROWD is the shape that is also measured
# at rest, and with restarts of the operator.
GROWS, GROWN = Shape(1, 4), 64
LOSES = (Shape(100, 4), Shape(1, 200))
# The shapes that are also measured with the channel.
CONNECTED, CHANNEL = (CROWD, Shape(1, 1500)), "IP, channel"
RESTARTS = 3
# The limit for each of the two control planes: several times what the measurement takes on two
# cores.
LIMIT_SECONDS = 2400


def note(shape: Shape, what: str, counts: tuple[int, int], result: Result) -> None:
    """Print a measurement immediately: the whole run takes 20 minutes and could fail later."""
    print("#", *growth_row(shape, what, counts, result), sep=" | ", flush=True)


@dataclass(frozen=True)
class Full:
    """The measurements on one control plane. `report` collects the figures; `rest` is how many
    seconds the running jobs are observed at rest.
    """

    place: Place
    report: Report
    rest: float

    async def measure(self, shapes: list[Shape]) -> None:
        """Measure each shape: the operator with the changes to its jobs, and the gated floor."""
        async with started(self.place, WARM, f"full-warm-{int(time.time())}"):
            pass
        for shape in shapes:
            namespace = f"full-{shape}-{int(time.time())}"
            most = GROWN if shape == GROWS else shape.ranks
            async with started(
                self.place, shape, namespace, rate=RATE, maxReplicas=most
            ) as running:
                self._started(shape, "IP", running.start)
                await self._go_on(shape, running)
            # The control plane still deletes objects of the previous run.
            await quiet(self.place.cluster)
            if shape in CONNECTED:
                await self._connected(shape, f"{namespace}-channel")
                await quiet(self.place.cluster)
            self._started(shape, "gated", await race_floor(self.place, shape, f"{namespace}-floor"))
            await quiet(self.place.cluster)

    async def _connected(self, shape: Shape, namespace: str) -> None:
        """Measure a start over the channel, and restarts while all launchers reconnect."""
        async with started(self.place, shape, namespace, CHANNEL, rate=RATE) as running:
            self._started(shape, CHANNEL, running.start)
            if shape == CROWD:
                self.report.reconnects += await self._restarts(running, channel=True)

    async def _go_on(self, shape: Shape, running: Running) -> None:
        """Measure the changes to running jobs of this shape."""
        where = self.place.kube, running.entrant.namespace
        if shape == GROWS:
            what = f"{GROWS.ranks} -> {GROWN} ranks", 1, GROWN - GROWS.ranks
            await self._change(running, shape, what, scale(*where, "job0", GROWN))
        if shape in LOSES:
            lost = lost_of(shape)
            what = f"{len(lost)} pods lost", len(set(lost.values())), len(lost)
            await self._change(running, shape, what, lose(*where, shape))
        if shape == CROWD:
            await self._idle(running)
            self.report.restarts += await self._restarts(running)

    def _started(self, shape: Shape, name: str, result: Result) -> None:
        note(shape, name, (shape.jobs, shape.pods), result)
        self.report.starts.append(Start(shape, name, result))

    async def _change(
        self, running: Running, shape: Shape, what: tuple[str, int, int], acting: Awaitable[Starts]
    ) -> None:
        change = Change(shape, *what, await running.entrant.measured(acting))
        note(shape, change.words, (change.jobs, change.pods), change.result)
        self.report.changes.append(change)

    async def _idle(self, running: Running) -> None:
        """Count the operator's writes and requests while the jobs are at rest."""
        await quiet(self.place.cluster)
        print(f"# at rest for {self.rest:.0f} s", flush=True)
        audit = Audit(self.place.cluster.audit_log)
        await asyncio.sleep(self.rest)
        writes, requests = len(list(audit.each())), audit.asked().total()
        assert not running.operator.died(), running.operator.evidence()
        print(f"# {writes} writes, {requests} requests", flush=True)
        self.report.rest = Rest(self.rest, writes, requests)

    async def _restarts(self, running: Running, *, channel: bool = False) -> list[Restart]:
        """Kill the operator and restart it, several times, with a new job waiting each time."""
        place, namespace, found = self.place, running.entrant.namespace, []
        crowd = Crowd(place.kube, namespace, running.operator, CROWD.jobs, channel)
        for number in range(RESTARTS):
            await running.operator.kill()
            seen = await crowd.restart(place.cluster.audit_log, number)
            print(
                f"# first pod of a new job {seen.seconds} s after its start, {len(seen.writes)}"
                f" writes for other jobs, {seen.cpu:.1f} s of CPU, {seen.peak:.0f} MB",
                flush=True,
            )
            found.append(seen)
        return found


async def run(cluster: Cluster, shapes: list[Shape], report: Report, rest: float) -> None:
    """Measure all shapes on one control plane."""
    async with Kube(Access.of(cluster.kubeconfig)) as kube, asyncio.timeout(LIMIT_SECONDS):
        await until_served(kube)
        await Full(Place(cluster, kube), report, rest).measure(shapes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="JOBSxRANKS ...")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--rest", type=float, default=180, help="seconds at rest (default 180)")
    given = parser.parse_args()
    report = Report(Machine.here())
    shapes = [Shape.parse(each) for each in given.shapes]
    # Many jobs and large jobs have separate control planes. Otherwise the memory that etcd and the
    # apiserver still hold for the former would be counted for the latter.
    try:
        for group in ([s for s in shapes if s.jobs > 1], [s for s in shapes if s.jobs == 1]):
            if group:
                with own_plane() as cluster:
                    asyncio.run(run(cluster, group, report, given.rest))
    finally:
        show(full_blocks(report))
    if given.json:
        report.save(given.json)


if __name__ == "__main__":
    main()
