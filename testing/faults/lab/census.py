"""Counts the objects that are created and deleted in a namespace, using its own watches."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from cluster.waiting import until_async

from faults.lab.kube import Json, Kube, KubeError, jobs, pods, services

PATHS = {"pod": pods, "service": services, "dijob": jobs}


@dataclass
class Census:
    """Counts created and deleted pods by name. `counts` covers all watched kinds, with keys such as
    "ADDED service/a".

    `moved` has the pods to which kwok gave a second address. This happens rarely, when kwok's view
    of a pod is outdated.
    """

    added: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)
    moved: set[str] = field(default_factory=set)
    addresses: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    async def follow(self, kube: Kube, namespace: str) -> None:
        """Watch until the task is canceled."""
        await asyncio.gather(*(self._follow(kube, namespace, kind) for kind in PATHS))

    async def _follow(self, kube: Kube, namespace: str, kind: str) -> None:
        path = PATHS[kind](namespace)
        version = await _listed(kube, path)
        async for event in kube.follow(path, version):
            type_, body = event["type"], event["object"]
            if type_ in ("ADDED", "DELETED"):
                self.counts[f"{type_} {kind}/{body['metadata']['name']}"] += 1
            if kind == "pod":
                self._pod(type_, body)

    def _pod(self, type_: str, body: Json) -> None:
        meta, ip = body["metadata"], body["status"].get("podIP")
        name = meta["name"]
        if ip and self.addresses.setdefault(meta["uid"], ip) != ip:
            self.moved.add(name)
        if type_ == "ADDED":
            self.added[name] += 1
        elif type_ == "DELETED":
            self.deleted[name] += 1

    def of(self, job: str) -> int:
        """Return the number of ADDED events of a job's pods."""
        return sum(count for name, count in self.added.items() if name.rpartition("-")[0] == job)

    def moved_of(self, job: str) -> set[str]:
        """Return the job's pods to which kwok gave a second address."""
        return {name for name in self.moved if name.rpartition("-")[0] == job}


async def _listed(kube: Kube, path: str) -> str:
    """Return the version to watch from. The storage of a new kind may be unavailable (429)."""
    version = ""

    async def missing() -> str:
        nonlocal version
        try:
            version = (await kube.get(path))["metadata"]["resourceVersion"]
        except KubeError as error:
            if error.status != 429:
                raise
            return str(error)
        return ""

    await until_async(f"a list of {path}", missing, 30)
    return version
