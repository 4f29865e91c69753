"""A new operator among many jobs that run: when it sees a new job, when it has looked at all, and
what it writes about those that need nothing.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from cluster.waiting import until_async
from faults.audit import Audit
from faults.bulk import Original, for_all
from faults.kube import Kube, dijob, jobs, pods, services
from faults.running import Operator

PASSES_SECONDS = 60.0
RANKS = 4


@dataclass(frozen=True)
class Restart:
    """What a new operator took: seconds from its start to the first pod of a job that waited for
    it; its CPU seconds and peak MB until it had looked at all jobs; what it wrote about the others.
    """

    seconds: float
    cpu: float
    peak: float
    writes: list[str]


@dataclass(frozen=True)
class Crowd:
    """So many jobs that run in a namespace, and their operator, which is away."""

    kube: Kube
    namespace: str
    operator: Operator
    jobs: int

    async def fill(self) -> None:
        """One job by the operator itself, and copies of it: each with 4 pods, a service and its
        status.
        """
        await self.operator.start()
        body = dijob(self.namespace, "original", RANKS)
        # Else the operator writes it once, and the copies would be of a generation that their
        # status has not seen.
        body["spec"]["replicas"] = RANKS
        await self.kube.create(jobs(self.namespace), body)

        async def missing() -> str:
            status = (await self.kube.get(jobs(self.namespace, "original"))).get("status") or {}
            ready = status.get("readyReplicas") == RANKS
            service = await self.kube.find(services(self.namespace, "original"))
            return "" if ready and service else f"{status}, service: {service is not None}"

        await until_async("the original", missing, 60, self.operator.evidence)
        await self.operator.kill()
        original = await Original.of(self.kube, self.namespace, "original")
        await for_all(range(self.jobs - 1), lambda number: original.clone(self.kube, number))

    async def restart(self, log: Path, number: int) -> Restart:
        """Start the operator with a new job waiting, and wait until it has looked at all. `log` is
        the apiserver's audit log.
        """
        audit = Audit(log)
        seconds = await self._first_pod(number)
        await self._settled(number)
        used = self.operator.usage()
        return Restart(round(seconds, 2), used.cpu, round(used.peak), self._others(audit, number))

    async def _first_pod(self, number: int) -> float:
        name = f"new{number}"
        await self.kube.create(jobs(self.namespace), dijob(self.namespace, name, 1))
        begin = time.monotonic()
        await self.operator.start()

        async def missing() -> str:
            there = await self.kube.find(pods(self.namespace, f"{name}-0"))
            return "" if there else "there is none"

        await until_async(f"first pod of {name}", missing, 60, self.operator.evidence)
        return time.monotonic() - begin

    async def _settled(self, number: int) -> None:
        """Every job has had its pass, and the new ones run."""
        name = f"new{number}"

        async def missing() -> str:
            passes = await self.operator.metric("dijob_passes_total")
            found = await self.kube.get(jobs(self.namespace, name))
            phase = (found.get("status") or {}).get("phase")
            service = await self.kube.find(services(self.namespace, name))
            done = passes >= self.jobs and phase == "Running" and service
            return "" if done else f"{passes:g} passes, {name} {phase}"

        await until_async("all passes", missing, PASSES_SECONDS, self.operator.evidence)

    def _others(self, audit: Audit, number: int) -> list[str]:
        """The operator's writes in the namespace about anything but the new job."""
        written = (write for write in audit.each() if write.namespace == self.namespace)
        return [
            f"{write.verb} {write.name}"
            for write in written
            if not write.name.startswith(f"new{number}")
        ]
