"""Two tenants that share an operator: one runs jobs, the other sends hostile objects."""

import asyncio
import itertools
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cluster import Cluster
from cluster.waiting import until_async
from manifests import GROUP

from faults.hostile.objects import Sent, drawn, objects
from faults.hostile.twists import DEPTH
from faults.lab.audit import Audit
from faults.lab.bulk import for_all
from faults.lab.kube import Json, Kube, KubeError, dijob, jobs, make_namespace, pods, services
from faults.lab.running import Operator

RANKS = 4
CALM_SECONDS, DEALT_WITH_SECONDS = 10.0, 400.0


@contextmanager
def deep_reading() -> Iterator[None]:
    """Raise the recursion limit, because the test itself handles objects that are nested as deeply
    as an apiserver accepts.
    """
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20 * DEPTH)
    yield
    sys.setrecursionlimit(before)


@dataclass
class Two:
    """Two tenants that share an operator: ours, with the running job "a", and theirs, which sends
    hostile objects.
    """

    kube: Kube
    operator: Operator
    stretches: Path
    audit_log: Path
    ours: str
    theirs: str
    stored: int = 0
    jobs: dict[str, str] = field(
        default_factory=dict
    )  # stored jobs of the other tenant: name and uid
    refused: Counter[str] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    async def ranks(self) -> Json:
        """Return the parts of our job "a" that must not change."""
        found = await self.kube.items(pods(self.ours) + f"?labelSelector={GROUP}/job=a")
        return {
            pod["metadata"]["name"]: {
                "uid": pod["metadata"]["uid"],
                "annotations": pod["metadata"]["annotations"],
                "restarts": [one["restartCount"] for one in pod["status"]["containerStatuses"]],
                "ip": pod["status"]["podIP"],
            }
            for pod in found
        }

    async def reaches(self, name: str, phase: str) -> None:
        async def missing() -> str:
            status = (await self.kube.get(jobs(self.ours, name))).get("status") or {}
            right = status.get("phase") == phase and status.get("readyReplicas") == status.get(
                "replicas"
            )
            return "" if right else f"{name} is {status}"

        await until_async(f"{name} {phase}", missing, 60, self.operator.evidence)

    async def start(self, name: str) -> float:
        """Start a job of ours. Return the seconds until it is Running."""
        begin = time.monotonic()
        await self.kube.create(jobs(self.ours), dijob(self.ours, name, RANKS))
        await self.reaches(name, "Running")
        return time.monotonic() - begin

    async def send(self, sent: Sent) -> None:
        """Send an object of the other tenant. Rejections are counted."""
        try:
            await self._send(sent)
            self.stored += 1
        except KubeError as error:
            self.refused[f"{sent.kind}: {error.status}"] += 1

    async def _send(self, sent: Sent) -> None:
        meta = {**sent.body.get("metadata", {}), "namespace": self.theirs}
        known = list(self.jobs.items())
        match sent.kind:
            case "dijobs":
                name = f"h{next(self.numbers)}"
                body = {**sent.body, "metadata": {**meta, "name": name}}
                self.jobs[name] = (await self.kube.create(jobs(self.theirs), body))["metadata"][
                    "uid"
                ]
            case "status" if known:
                name, _ = known[sent.body["of"] % len(known)]
                await self.kube.patch(
                    jobs(self.theirs, name) + "/status", {"status": sent.body["status"]}
                )
            case "pods" | "services":
                for reference in meta["ownerReferences"]:
                    if isinstance(reference["uid"], int):
                        reference["uid"] = (
                            known[reference["uid"] % len(known)][1] if known else "none"
                        )
                path = pods(self.theirs) if sent.kind == "pods" else services(self.theirs)
                await self.kube.create(path, {**sent.body, "metadata": meta})

    async def flood(self, count: int, number: int) -> None:
        """Send objects until `count` of them are stored."""
        uid = (await self.kube.get(jobs(self.ours, "a")))["metadata"]["uid"]
        while self.stored < count:
            await for_all(drawn(objects((uid,)), count - self.stored + 10, number), self.send)
            number += 1_000_000

    async def status(self) -> dict[str, Json]:
        """Return the statuses of the other tenant's jobs by name."""
        return {
            body["metadata"]["name"]: body.get("status") or {}
            for body in await self.kube.items(jobs(self.theirs))
        }

    async def until_calm(self) -> float:
        """Wait until all jobs of the other tenant have been reconciled. Return the seconds."""
        # Occasional events and retries of a job are allowed.
        most = 10 + self.stored / 20

        async def busy() -> str:
            before = await self.operator.metric("dijob_api_requests_total")
            await asyncio.sleep(CALM_SECONDS)
            asked = await self.operator.metric("dijob_api_requests_total") - before
            return "" if asked <= most else f"{asked:g} requests in {CALM_SECONDS:g} s"

        return await until_async("all dealt with", busy, DEALT_WITH_SECONDS, self.operator.evidence)

    async def needless(self, seconds: float) -> tuple[Counter[str], int]:
        """Count the operator's requests during `seconds`, except those about jobs that are
        changing or waiting for something. Return the counts, and the number of excluded jobs.
        """
        before, audit = await self.status(), Audit(self.audit_log)
        await asyncio.sleep(seconds)
        asked, after = audit.asked(), await self.status()
        excused = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        excused |= {name for name, status in after.items() if _waits(status)}
        about = re.compile(rf"{self.theirs}/(h\d+)")
        named = {what: found[1] if (found := about.search(what)) else "" for what in asked}
        return Counter(
            {what: asked[what] for what, name in named.items() if name not in excused}
        ), len(excused)


def _waits(status: Json) -> bool:
    """Whether a job with this status is waiting: for nodes, for addresses, or after a rejection."""
    reasons = [condition["reason"] for condition in status.get("conditions", ())]
    return status.get("phase") in ("Pending", "Starting") or any(
        "Taken" in one or "Refused" in one for one in reasons
    )


@asynccontextmanager
async def two(plane: Cluster, kube: Kube, folder: Path) -> AsyncIterator[Two]:
    """Yield two namespaces with their operator. At the end, both are deleted."""
    ours, theirs = (f"{side}-{secrets.token_hex(4)}" for side in ("ours", "theirs"))
    stretches = folder / "stretches"
    operator = Operator(plane.kubeconfig, folder / "operator.log", stretches=stretches)
    try:
        await make_namespace(kube, ours)
        await make_namespace(kube, theirs)
        async with operator:
            yield Two(kube, operator, stretches, plane.audit_log, ours, theirs)
    finally:
        for path in (jobs(theirs), pods(theirs)):
            for body in await kube.items(path):
                if body["metadata"].get("finalizers"):
                    await kube.patch(
                        f"{path}/{body['metadata']['name']}", {"metadata": {"finalizers": None}}
                    )
        for namespace in (ours, theirs):
            await kube.delete(f"/api/v1/namespaces/{namespace}")
