"""A lane: one namespace with its own proxy and its own operator, and an own count of the pods that
came and went.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
from cluster.waiting import until_async
from dijob import names
from faults.census import Census
from faults.kube import Json, Kube, dijob, jobs, make_namespace, pods, services
from faults.proxy import Proxy
from faults.running import Operator

# What differs from run to run and means nothing: times, uids, versions, nodes, names that the
# apiserver makes up.
MASKED = re.compile(
    r"(time|Time|excusedAt|uid|resourceVersion|nodeName|node|selfLink|managedFields|suspendedSeconds|containerID|generateName|digest)$"
)

# A reminder is a matter of how fast kwok was, and changes nothing; the other one is the job's size
# when the pod was made.
UNCOMPARED = {names.ANNOTATION_REMINDED, names.LEGACY_REPLICAS}


@dataclass
class Lane:
    """Where a test works, alone in its namespace."""

    kube: Kube
    namespace: str
    proxy: Proxy
    operator: Operator
    census: Census

    async def apply(self, name: str, size: int = 4, **spec: Any) -> None:
        """Create a DIJob."""
        await self.kube.create(jobs(self.namespace), dijob(self.namespace, name, size, **spec))

    async def pods(self, job: str) -> dict[str, Json]:
        """The job's pods, by name."""
        found = await self.kube.items(
            pods(self.namespace) + f"?labelSelector=diengine.opendilab.org/job={job}"
        )
        return {pod["metadata"]["name"]: pod for pod in found}

    async def remove(self, job: str) -> None:
        await self.kube.delete(jobs(self.namespace, job))

    async def status(self, job: str) -> Json:
        """The job's status, {} while there is none."""
        body = await self.kube.find(jobs(self.namespace, job)) or {}
        return body.get("status") or {}

    async def condition(self, job: str, kind: str) -> Json:
        """One condition of the job, {} while it has none of that type."""
        said = (await self.status(job)).get("conditions", ())
        return next((one for one in said if one["type"] == kind), {})

    async def until(
        self, what: str, missing: Callable[[], Awaitable[str]], seconds: float = 60
    ) -> float:
        """Poll until nothing is missing; how long it took. What fails shows the evidence."""
        return await until_async(what, missing, seconds, self.evidence)

    async def reaches(self, job: str, phase: str | None, seconds: float = 60) -> float:
        """Wait for the phase (for Running and Suspended: and for all that comes with it; None: the
        job is gone); how long it took.
        """

        async def missing() -> str:
            status = await self.status(job)
            if (seen := status.get("phase")) != phase:
                return f"{job} is {seen or 'not seen yet'}, not {phase}"
            if phase == "Suspended" and (left := status.get("replicas")):
                return f"{left} pods of {job} are left"
            if phase != "Running":
                return ""
            if (ready := status.get("readyReplicas")) != status.get("replicas"):
                return f"{ready} ranks of {job} are ready"
            service = await self.kube.find(services(self.namespace, job))
            return "" if service else f"{job} has no service"

        return await self.until(f"{job} {phase}", missing, seconds)

    async def counted(self, job: str) -> None:
        """Wait until the status has as many pods as there are: figures are written rarely."""

        async def wrong() -> str:
            there = len(await self.pods(job))
            said = (await self.status(job)).get("replicas")
            return "" if said == there else f"the status says {said} pods of {job}, not {there}"

        await self.until(f"the pods of {job} are counted", wrong)

    async def reconciled(self, least: int, seconds: float = 60) -> None:
        """Wait until the operator that runs now has made so many passes."""

        async def missing() -> str:
            done = await self.operator.metric("dijob_passes_total")
            return "" if done >= least else f"{done:g} passes of {least}"

        await self.until("passes", missing, seconds)

    async def watching(self, seconds: float = 60, within: str = "") -> None:
        """Wait until all three watches are open (on paths that contain `within` right before)."""

        async def missing() -> str:
            absent = [
                part
                for part in ("/pods", "/services", "/dijobs")
                if not self.proxy.watches(within + part)
            ]
            return f"no watch of {', '.join(absent)}" if absent else ""

        await self.until("watches", missing, seconds)

    async def snapshot(self, job: str) -> Json:
        """The job and its children, with what differs from run to run masked (Sieve's oracle,
        OSDI'22).
        """
        body = await self.kube.find(jobs(self.namespace, job))
        found = await self.pods(job)
        service = await self.kube.find(services(self.namespace, job))
        state: Json = {
            "spec": (body or {}).get("spec"),
            "status": _without_refusal(_either_word(mask((body or {}).get("status")))),
            "pods": {name: _pod(pod, found) for name, pod in sorted(found.items())},
            "service": mask((service or {}).get("spec")),
        }
        server = await self.kube.find(pods(self.namespace, f"{job}-mq"))
        text = json.dumps(state).replace(_uid(body), "UID").replace(_uid(server), "SERVER")
        text = text.replace(self.namespace, "NAMESPACE")
        renamed: Json = json.loads(re.sub(rf"\b{re.escape(job)}\b", "JOB", text))
        return renamed

    def evidence(self) -> str:
        """What a reader of a failed test wants to see."""
        writes = "; ".join(map(str, self.proxy.writes[-12:]))
        cpu = self.operator.usage().cpu
        return f"last writes: {writes}\nCPU: {cpu:g} s\n{self.operator.evidence()}"


def _uid(body: Json | None) -> str:
    return str(((body or {}).get("metadata") or {}).get("uid") or "no uid")


def _pod(pod: Json, siblings: dict[str, Json]) -> Json:
    """A pod without what the cluster decides; its address list is compared with the addresses that
    there are.
    """
    meta, spec = pod["metadata"], pod["spec"]
    truth = {int(name.rpartition("-")[2]): p["status"].get("podIP") for name, p in siblings.items()}
    own = {pod["status"].get("podIP"): "its own address"}
    annotations = {
        k: own.get(v, v) if k == names.ANNOTATION_POD_IP else _addresses(v, truth)
        for k, v in (meta.get("annotations") or {}).items()
        if k not in UNCOMPARED
    }
    # The apiserver's service account token.
    volumes = [v for v in spec["volumes"] if "projected" not in v]
    containers = [{k: v for k, v in c.items() if k != "volumeMounts"} for c in spec["containers"]]
    return {
        "labels": meta["labels"],
        "annotations": annotations,
        "containers": containers,
        "volumes": volumes,
        "phase": pod["status"].get("phase"),
        "deleting": "deletionTimestamp" in meta,
    }


def _either_word(status: Any) -> Any:
    """A pod that is deleted without grace is seen as going or as gone, by chance: both are the same
    loss.
    """
    renewal = (status or {}).get("lastRenewal") or {}
    if renewal.get("reason") in ("PodDeleted", "PodLost"):
        renewal["message"] = re.sub(
            r"(its pod is gone|pod \S+ is being deleted)", "GONE", renewal["message"]
        )
        renewal["reason"] = "GONE"
    return status


def _without_refusal(status: Any) -> Any:
    """Without the condition that changes were refused once, and are not any more: where no fault
    was, there is none.
    """
    over = ("ChangesRefused", "False")
    conditions = (status or {}).get("conditions", ())
    kept = [one for one in conditions if (one["type"], one["status"]) != over]
    return {**status, "conditions": kept} if conditions else status


def _addresses(text: str, truth: dict[int, str]) -> str:
    """A list of IP addresses as whether it is true of the pods that are there; any other text, a
    list of names too, as it is.
    """
    if text.startswith("{"):
        topology = json.loads(text)
        return json.dumps({**topology, "nodeIps": _addresses(",".join(topology["nodeIps"]), truth)})
    listed = text.split(",")
    if not all(map(_is_ip, listed)):
        return text
    told = all(rank < len(listed) and listed[rank] == ip for rank, ip in truth.items())
    return f"{len(listed)} addresses, true" if told else f"{listed} instead of {truth}"


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def mask(value: Any) -> Any:
    """The value without times, uids, versions and nodes."""
    if isinstance(value, dict):
        return {k: "MASKED" if MASKED.search(k) else mask(v) for k, v in value.items()}
    return [mask(v) for v in value] if isinstance(value, list) else value


def difference(wanted: Any, found: Any, at: str = "") -> list[str]:
    """Where two states differ, in words."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        keys = sorted({*wanted, *found})
        return [
            line
            for key in keys
            for line in difference(wanted.get(key), found.get(key), f"{at}.{key}")
        ]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            line
            for i, pair in enumerate(zip(wanted, found, strict=True))
            for line in difference(*pair, f"{at}[{i}]")
        ]
    return [] if wanted == found else [f"{at}: wanted {wanted!r}, found {found!r}"]


@asynccontextmanager
async def lane(
    kube: Kube, namespace: str, folder: Path, others: tuple[str, ...] = ()
) -> AsyncIterator[Lane]:
    """A lane with a running operator, which serves `others` too; at its end the operator is gone
    and the namespace on its way.
    """
    await make_namespace(kube, namespace)
    census = Census()
    counting = asyncio.create_task(census.follow(kube, namespace))
    try:
        async with Proxy(kube.access, folder) as proxy:
            operator = Operator(proxy.kubeconfig, folder / f"{namespace}.log", (namespace, *others))
            async with operator:
                made = Lane(kube, namespace, proxy, operator, census)
                await made.watching()
                yield made
                if counting.done():
                    counting.result()
    finally:
        counting.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError):
            await counting
        await kube.delete(f"/api/v1/namespaces/{namespace}")
