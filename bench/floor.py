"""The floors: the cost of pods that can do the same as ranks, for a client that knows everything in
advance. It is the lower bound with which the operator is compared.

The client imports nothing of the operator, so that it cannot share its inefficiencies. Its pods are
defined in files: bare (one container, which gets no addresses), waiting (the container's program
waits for the addresses itself) and gated (an init container waits for them).
"""

import asyncio
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import yaml
from faults.lab.bulk import for_all
from faults.lab.kube import Json, Kube, pods
from measured import Starts

PODS = Path(__file__).parent / "pods"
IPS = "diengine.opendilab.org/node-ips"
NUMBER = "diengine.opendilab.org/list-number"
# The answer to a patch has only the metadata, so that it costs as little as possible.
PATCH = {
    "Content-Type": "application/merge-patch+json",
    "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}


class Kind(StrEnum):
    """The kind of a floor; the value is the name of its file in bench/pods."""

    BARE = "bare"
    WAITING = "waiting"
    GATED = "gated"

    def pod(self, name: str, rank: int, size: int) -> Json:
        """Return the pod of one rank."""
        text = (PODS / f"{self}.yaml").read_text()
        # Replace the placeholders only as separate words, not within names such as DI_RANK.
        for word, value in (("NAME", name), ("RANK", rank), ("SIZE", size)):
            text = re.sub(rf"(?<!_){word}\b", str(value), text)
        made: Json = yaml.safe_load(text)
        return made


@dataclass
class Floor:
    """One run. It creates all pods of each job. If the pods wait for addresses, it patches each pod
    as soon as all pods of its job have one.
    """

    kube: Kube
    namespace: str
    jobs: int
    ranks: int
    kind: Kind = Kind.GATED
    # The addresses of each job, by the name of the pod.
    known: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    starts: Starts = field(default_factory=Starts)
    tasks: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(32))

    async def run(self) -> Starts:
        """Create all pods, and return when all of them run."""
        version = (await self.kube.get(pods(self.namespace)))["metadata"]["resourceVersion"]
        made = [
            self.kind.pod(f"floor{number}", rank, self.ranks)
            for number in range(self.jobs)
            for rank in range(self.ranks)
        ]
        async with self.tasks:
            self.tasks.create_task(for_all(made, self._create))
            async for event in self.kube.follow(pods(self.namespace), version):
                self._take(event["object"])
                if len(self.starts.ran) == self.jobs:
                    break
        return self.starts

    async def _create(self, body: Json) -> None:
        job = body["metadata"]["name"].rpartition("-")[0]
        self.starts.creates(job)
        await self.kube.create(pods(self.namespace), body)

    def _take(self, pod: Json) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        job = name.rpartition("-")[0]
        addresses = self.known[job]
        told = IPS in pod["metadata"].get("annotations", ())
        # A pod counts as running only when the watch shows it with its addresses. Before that, it
        # is unknown whether the patch has arrived.
        if status.get("phase") == "Running" and (told or self.kind is Kind.BARE):
            self.starts.pod_runs(job, name, self.ranks)
        if self.kind is not Kind.BARE and (ip := status.get("podIP")) and name not in addresses:
            addresses[name] = ip
            # The floor needs no rendezvous, because its jobs have a fixed size: it publishes when
            # the last address is known.
            if len(addresses) == self.ranks:
                self._publish(job, addresses)

    def _publish(self, job: str, addresses: dict[str, str]) -> None:
        ips = ",".join(addresses[f"{job}-{rank}"] for rank in range(self.ranks))
        for name in addresses:
            self.tasks.create_task(self._patch(name, ips))

    async def _patch(self, name: str, ips: str) -> Json:
        annotations = {IPS: ips, NUMBER: "1"}
        # Emptying managedFields makes the pod smaller for every watch.
        body = {"metadata": {"managedFields": [{}], "annotations": annotations}}
        async with self.room:
            return await self.kube.call("PATCH", pods(self.namespace, name), body, **PATCH)


def size_of(pod: Json) -> int:
    """Return the size of a pod in bytes, as a watch delivers it."""
    return len(json.dumps(pod, separators=(",", ":")))
