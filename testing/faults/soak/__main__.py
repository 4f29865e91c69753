"""The soak test: random jobs and random faults for a long time, on two operators with leader
election. It measures memory growth, leaks, and how long jobs take to start. Usage:
python -m faults.soak [--minutes M] [--seed N] [--channel] [--json FILE]
"""

import argparse
import asyncio
import itertools
import random
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from place import until_served
from planes import control_plane
from report import Machine
from workers import own

from faults.lab.ends import exits
from faults.lab.exchange import Fault
from faults.lab.kube import Access, Kube, KubeError, jobs, pods
from faults.lab.lane import Lane
from faults.lab.pair import Pair, paired
from faults.lab.proxy import Proxy
from faults.simulated_nodes.mischief import sometimes
from faults.simulated_nodes.stage import CHANNEL_HELP, Stage
from faults.soak.held import REST_SECONDS, both, leaks, rss
from faults.soak.results import Sample, Soaked, newest, percentile, slope, table

# The number of jobs that run at the same time. When one ends, the next one starts.
JOBS, SAMPLE_SECONDS = 8, 5.0
STARTED_SECONDS, SETTLED_SECONDS = 180.0, 120.0

# The growth of memory is measured in the second half, in processes that live through all of it. No
# operator is killed after the first quarter, so that each has reached its normal size when the
# second half begins.
KILLS_SHARE, KILLS = 0.25, {"kill", "stop"}
# The operator notices a silent connection after 70 s.
SILENT_SECONDS = 90.0
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}


@dataclass
class Soak:
    """The jobs and faults until `end` (monotonic seconds), and the measurements."""

    pair: Pair
    dice: random.Random
    begin: float
    end: float
    machine: Machine = field(default_factory=Machine.here)
    samples: list[Sample] = field(default_factory=list)
    started: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def lane(self) -> Lane:
        return self.pair.lane

    async def run(self) -> None:
        """Run jobs, faults and measurements at the same time until the end."""
        # These two tasks never end by themselves, so they are not part of the task group.
        beside = asyncio.gather(self._sample(), told(self))
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._trouble())
                for _ in range(JOBS):
                    group.create_task(self._jobs())
        finally:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)

    async def _sample(self) -> None:
        while True:
            for name, operator in (("a", self.pair.a), ("b", self.pair.b)):
                # The process may have been killed a moment ago.
                with suppress(OSError):
                    at, process = time.monotonic() - self.begin, f"{name}{operator.starts}"
                    self.samples.append(Sample(at, process, rss(operator.pid)))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _jobs(self) -> None:
        while time.monotonic() < self.end:
            name, size = f"s{next(self.numbers)}", self.dice.randint(1, 5)
            begin = time.monotonic()
            # A Redis server needs its own pod, Service and policy, so only some jobs have one.
            queue = {"messageQueue": {"type": "redis"}} if self.dice.random() < 0.1 else {}
            await self.lane.apply(
                name, size, minReplicas=1, maxReplicas=8, replicas=size, backoffLimit=50, **queue
            )
            try:
                await self._until_it_runs(name, size)
                self.started.append(time.monotonic() - begin)
                await self._life(name, size)
            # Other jobs continue; the soak reports all failures at its end.
            except (AssertionError, KubeError) as error:
                self.wrong.append(f"{name}: {error}"[:2000])
            await self.lane.remove(name)

    async def _until_it_runs(self, name: str, size: int) -> None:
        async def missing() -> str:
            status = await self.lane.status(name)
            seen = (status.get("phase"), status.get("readyReplicas"))
            return "" if seen == ("Running", size) else f"{seen}: {status.get('message')}"

        await self.lane.until(name, missing, STARTED_SECONDS)

    async def _life(self, name: str, size: int) -> None:
        """Apply one random change to a job, and wait until all its ranks run again."""
        what = self.dice.choice(["loss", "failure", "size", "suspend", "nothing"])
        rank = self.dice.randrange(size)
        path = jobs(self.lane.namespace, name)
        match what:
            case "loss":
                await self.lane.kube.delete(pods(self.lane.namespace, f"{name}-{rank}"))
            case "failure":
                await exits(self.lane, f"{name}-{rank}", 1, 0)
            case "size":
                size = self.dice.randint(1, 8)
                await self.lane.kube.patch(path, {"spec": {"replicas": size}})
            case "suspend":
                await self.lane.kube.patch(path, {"spec": {"suspend": True}})
                await asyncio.sleep(self.dice.uniform(0, 5))
                await self.lane.kube.patch(path, {"spec": {"suspend": False}})
        await asyncio.sleep(self.dice.uniform(2, 10))
        await self._until_it_runs(name, size)

    async def _trouble(self) -> None:
        """Inject one fault after another, with pauses. Each fault ends by itself."""
        kinds: dict[str, Callable[[], Awaitable[None]]] = {
            "cut": self._cut,
            "503": self._refused,
            "percent": self._percent,
            "slow": self._slow,
            "410": self._gone,
            "stall": self._stall,
            "kill": self._kill,
            "stop": self._stop,
        }
        while time.monotonic() < self.end:
            # The names are sorted, because the order of a set differs between runs, and the choice
            # must depend only on the seed.
            name = self.dice.choice(sorted(kinds.keys() - self._unfit()))
            self.faults[name] = self.faults.get(name, 0) + 1
            await kinds[name]()
            for way in self._ways:
                way.answer, way.delay = (lambda asked: None), (lambda asked: 0.0)
            for operator in (self.pair.a, self.pair.b):
                # A kubelet would restart it.
                if operator.died():
                    await operator.start()
            await asyncio.sleep(self.dice.uniform(3, 12))

    def _unfit(self) -> set[str]:
        """Return the faults that would disturb a later measurement, or would not end in time."""
        now = time.monotonic()
        late = now > self.begin + KILLS_SHARE * (self.end - self.begin)
        silent = {"stall"} if now > self.end - SILENT_SECONDS else set()
        return silent | KILLS if late else silent

    @property
    def _ways(self) -> tuple[Proxy, Proxy]:
        return self.pair.way, self.lane.proxy

    async def _cut(self) -> None:
        for way in self._ways:
            way.cut_watches()

    async def _refused(self) -> None:
        for way in self._ways:
            way.answer = lambda asked: Fault(503)
        await asyncio.sleep(self.dice.uniform(1, 15))

    async def _percent(self) -> None:
        status = self.dice.choice([409, 429, 500, 0])
        for way in self._ways:
            way.answer = sometimes(self.dice, 0.1, Fault(status))
        await asyncio.sleep(10)

    async def _slow(self) -> None:
        for way in self._ways:
            way.delay = lambda asked: 0.3
        await asyncio.sleep(10)

    async def _gone(self) -> None:
        for way in self._ways:
            await way.tell_watches({"type": "ERROR", "object": GONE})

    async def _stall(self) -> None:
        self.dice.choice(self._ways).stall()

    async def _kill(self) -> None:
        await self.dice.choice([self.pair.a, self.pair.b]).kill()

    async def _stop(self) -> None:
        chosen = self.dice.choice([self.pair.a, self.pair.b])
        chosen.signal(signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(1, 10))
        chosen.signal(signal.SIGCONT)
        await asyncio.sleep(2)

    async def settled(self) -> None:
        """Wait until all pods are gone."""

        async def left() -> str:
            found = await self.lane.kube.items(pods(self.lane.namespace))
            return f"{len(found)} pods" if found else ""

        await self.lane.until("no pods are left", left, SETTLED_SECONDS)


async def told(soak: Soak) -> None:
    """Print the progress once a minute."""
    for minute in itertools.count(1):
        await asyncio.sleep(60)
        done = f"{len(soak.started)} jobs have run, {sum(soak.faults.values())} faults"
        print(
            f"minute {minute}: {done}, {len(soak.wrong)} wrong; {newest(soak.samples)}", flush=True
        )


async def soak(stage: Stage, minutes: float) -> Soaked:
    """Run the soak. A first job runs before the soak, so that resources that are allocated only
    once do not count as leaks.
    """
    async with stage.lane() as lane, paired(lane, stage.plane.audit_log, stage.own_folder()) as two:
        await lane.apply("first", 3)
        await lane.reaches("first", "Running")
        await lane.remove("first")
        begin = time.monotonic()
        made = Soak(two, stage.dice("soak"), begin, begin + 60 * minutes)
        await made.settled()
        await asyncio.sleep(REST_SECONDS)
        # Measured after a pause, so that connections of the first job are closed.
        young = await both(two)
        begin = time.monotonic()
        made.begin, made.end = begin, begin + 60 * minutes
        await made.run()
        await made.settled()
        return result(stage, made, minutes, await leaks(two, young))


def result(stage: Stage, made: Soak, minutes: float, leaks: list[str]) -> Soaked:
    samples = made.samples
    return Soaked(
        made.machine,
        stage.seed,
        minutes,
        len(made.started),
        made.faults,
        round(slope(samples, 30 * minutes), 1),
        leaks,
        round(percentile(made.started, 0.5), 2),
        round(percentile(made.started, 0.99), 2),
        round(max((one.rss for one in samples), default=0.0), 1),
        made.wrong,
    )


async def on_own_plane(minutes: float, seed: int, channel: bool = False) -> Soaked:
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as folder,
        control_plane(own("soak"), nodes=20, loopback_pods=channel) as plane,
    ):
        async with Kube(Access.of(plane.kubeconfig)) as kube:
            await until_served(kube)
            return await soak(Stage(plane, kube, Path(folder), seed, channel), minutes)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--channel", action="store_true", help=CHANNEL_HELP)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    print(f"{given.minutes:g} minutes, seed {given.seed}", flush=True)
    soaked = asyncio.run(on_own_plane(given.minutes, given.seed, given.channel))
    print(table(soaked), *soaked.leaks, *soaked.wrong, sep="\n")
    if given.json:
        soaked.save(given.json)
    sys.exit(not soaked.within)


if __name__ == "__main__":
    main()
