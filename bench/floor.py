"""The floor: what a client that knows everything beforehand needs for the same pods, gates and
address lists.
"""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

from dijob.api.parse import parse_job
from dijob.core.members import gang_of
from dijob.core.options import Options
from dijob.core.render import service
from dijob.core.render.pod import pod_manifest
from faults.bulk import for_all
from faults.kube import Json, Kube, dijob, pods, services

IPS = "diengine.opendilab.org/node-ips"
NUMBER = "diengine.opendilab.org/list-number"


@dataclass
class Floor:
    """One run: a service and the pods of each job, one patch per pod when all pods of its job have
    addresses.
    """

    kube: Kube
    namespace: str
    jobs: int
    ranks: int
    waiting: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    running: set[str] = field(default_factory=set)
    patches: set[asyncio.Task[Json]] = field(default_factory=set)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(32))

    async def run(self) -> float:
        """Seconds from the first create until every pod of every job runs."""
        version = (await self.kube.get(pods(self.namespace)))["metadata"]["resourceVersion"]
        made = [self._objects(number) for number in range(self.jobs)]
        begin = time.monotonic()
        creating = asyncio.create_task(self._create(made))
        while len(self.running) < self.jobs * self.ranks:  # a server may end a watch at any time
            async for event in self.kube.events(pods(self.namespace), version):
                self._take(event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                if len(self.running) == self.jobs * self.ranks:
                    break
        took = time.monotonic() - begin
        await asyncio.gather(creating, *self.patches)
        return took

    async def _create(self, made: list[tuple[Json, list[Json]]]) -> None:
        async def one(body: Json) -> None:
            path = pods(self.namespace) if body["kind"] == "Pod" else services(self.namespace)
            await self.kube.create(path, body)

        await for_all([body for head, members in made for body in (head, *members)], one)

    def _objects(self, number: int) -> tuple[Json, list[Json]]:
        """The very pods that the operator would create, but owned by nobody: there is no DIJob."""
        body = dijob(self.namespace, f"floor{number}", self.ranks)
        meta = {
            "uid": f"floor{number}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        body["metadata"] |= {**meta, "generation": 1}
        job = parse_job(body)
        members = [pod_manifest(job, member, Options()) for member in gang_of(job).members]
        (head,) = service.manifests(job, Options())
        for child in (head, *members):
            child["metadata"].pop("ownerReferences")
        return head, members

    def _take(self, pod: Json) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        job = name.rpartition("-")[0]
        addresses = self.waiting[job]
        if status.get("phase") == "Running":
            self.running.add(name)
        if (ip := status.get("podIP")) and name not in addresses:
            addresses[name] = ip
            if len(addresses) == self.ranks:
                self._publish(job, addresses)

    def _publish(self, job: str, addresses: dict[str, str]) -> None:
        ips = ",".join(addresses[f"{job}-{rank}"] for rank in range(self.ranks))
        for name in addresses:
            self.patches.add(asyncio.create_task(self._patch(name, ips)))

    async def _patch(self, name: str, ips: str) -> Json:
        async with self.room:
            annotations = {IPS: ips, NUMBER: "1"}
            return await self.kube.patch(
                pods(self.namespace, name), {"metadata": {"annotations": annotations}}
            )
