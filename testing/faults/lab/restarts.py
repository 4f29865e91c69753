"""Measures a new operator with many running jobs: how soon it sees a new job, how soon it has
reconciled all jobs, and what it writes about jobs that need nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from cluster.waiting import until_async

from faults.lab.audit import Audit
from faults.lab.bulk import Original, for_all
from faults.lab.kube import Json, Kube, dijob, jobs, pods, services
from faults.lab.running import Operator

PASSES_SECONDS = 60.0
RANKS = 4


@dataclass(frozen=True)
class Restart:
    """The costs of a restart: the seconds until a waiting job gets its first pod, the CPU seconds
    and the peak memory in MB until all jobs are reconciled, and the writes to objects of the other
    jobs.
    """

    seconds: float
    cpu: float
    peak: float
    writes: list[str]


@dataclass(frozen=True)
class Crowd:
    """Many running jobs in a namespace, and their operator, which is not running yet. With a
    `channel`, the jobs' pods have no gate.
    """

    kube: Kube
    namespace: str
    operator: Operator
    jobs: int
    channel: bool = False

    async def fill(self) -> None:
        """Create one job, wait until the operator has started it, and then copy the job with its 4
        pods, Service and status.
        """
        await self.operator.start()
        body = self._body("original", RANKS)
        # Otherwise the operator would set the field, and the copies would have a newer generation
        # than their status.
        body["spec"]["replicas"] = RANKS
        await self.kube.create(jobs(self.namespace), body)

        async def missing() -> str:
            status = (await self.kube.get(jobs(self.namespace, "original"))).get("status") or {}
            ready = status.get("readyReplicas") == RANKS
            service = self.channel or await self.kube.find(services(self.namespace, "original"))
            return "" if ready and service else f"{status}, service: {bool(service)}"

        await until_async("the original", missing, 60, self.operator.evidence)
        await self.operator.kill()
        original = await Original.of(self.kube, self.namespace, "original", self.channel)
        await for_all(range(self.jobs - 1), lambda number: original.clone(self.kube, number))

    def _body(self, name: str, size: int) -> Json:
        return dijob(self.namespace, name, size, service="Auto" if self.channel else "Always")

    async def restart(self, log: Path, number: int) -> Restart:
        """Start the operator with a new job waiting, and wait until it has reconciled all jobs.
        `log` is the apiserver's audit log.
        """
        audit = Audit(log)
        seconds = await self._first_pod(number)
        await self._settled(number)
        used = self.operator.usage()
        return Restart(round(seconds, 2), used.cpu, round(used.peak), self._others(audit, number))

    async def _first_pod(self, number: int) -> float:
        name = f"new{number}"
        await self.kube.create(jobs(self.namespace), self._body(name, 1))
        begin = time.monotonic()
        await self.operator.start()

        async def missing() -> str:
            there = await self.kube.find(pods(self.namespace, f"{name}-0"))
            return "" if there else "there is none"

        await until_async(f"first pod of {name}", missing, 60, self.operator.evidence)
        return time.monotonic() - begin

    async def _settled(self, number: int) -> None:
        """Wait until every job has been reconciled and the new ones are running."""
        name = f"new{number}"

        async def missing() -> str:
            passes = await self.operator.metric("dijob_reconciliations_total")
            found = await self.kube.get(jobs(self.namespace, name))
            phase = (found.get("status") or {}).get("phase")
            service = self.channel or await self.kube.find(services(self.namespace, name))
            done = passes >= self.jobs and phase == "Running" and service
            return "" if done else f"{passes:g} passes, {name} {phase}"

        await until_async("all passes", missing, PASSES_SECONDS, self.operator.evidence)

    def _others(self, audit: Audit, number: int) -> list[str]:
        """Return the operator's writes in the namespace, except those to objects of the new job."""
        written = (write for write in audit.each() if write.namespace == self.namespace)
        return [
            f"{write.verb} {write.name}"
            for write in written
            if not write.name.startswith(f"new{number}")
        ]
