"""A lane: a namespace with its own proxy, its own operator, and a count of created and deleted
pods.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import aiohttp
from cluster.waiting import until_async
from dijob import names
from dijob.pod import CHANNEL

from faults.lab.census import Census
from faults.lab.channel import Channel, open_channel
from faults.lab.kube import Json, Kube, dijob, jobs, make_namespace, pods, services
from faults.lab.proxy import Proxy
from faults.lab.running import Operator

# Fields whose differences between runs mean nothing: times, uids, versions, nodes, generated names.
MASKED = re.compile(
    r"(time|Time|excusedAt|uid|resourceVersion|nodeName|node|selfLink|managedFields|suspendedSeconds|containerID|generateName|digest|goodput)$"
)

# Reminders depend on how fast kwok was, and change nothing. The annotation diengine/replicas
# contains the size that the job had when the pod was created.
UNCOMPARED = {names.ANNOTATION_REMINDED, names.LEGACY_REPLICAS}


@dataclass
class Lane:
    """The environment of one test, in its own namespace. Without a `channel`, all pods have a gate,
    and get their peer lists as annotations.
    """

    kube: Kube
    namespace: str
    proxy: Proxy
    operator: Operator
    census: Census
    channel: Channel | None = None

    def body(self, name: str, size: int = 4, **spec: Any) -> Json:
        """Return a DIJob. In a lane with a channel, the job has no Service: with a Service, its
        pods would have a gate and would not use the channel.
        """
        service = {"service": "Auto"} if self.channel else {}
        return dijob(self.namespace, name, size, **{**service, **spec})

    async def apply(self, name: str, size: int = 4, **spec: Any) -> None:
        """Create a DIJob."""
        await self.kube.create(jobs(self.namespace), self.body(name, size, **spec))

    async def pods(self, job: str) -> dict[str, Json]:
        """Return the job's pods by name."""
        found = await self.kube.items(
            pods(self.namespace) + f"?labelSelector=diengine.opendilab.org/job={job}"
        )
        return {pod["metadata"]["name"]: pod for pod in found}

    async def remove(self, job: str) -> None:
        await self.kube.delete(jobs(self.namespace, job))

    async def status(self, job: str) -> Json:
        """Return the job's status, or {} if there is none."""
        body = await self.kube.find(jobs(self.namespace, job)) or {}
        return body.get("status") or {}

    async def condition(self, job: str, kind: str) -> Json:
        """Return the job's condition of the type `kind`, or {} if there is none."""
        said = (await self.status(job)).get("conditions", ())
        return next((one for one in said if one["type"] == kind), {})

    async def until(
        self, what: str, missing: Callable[[], Awaitable[str]], seconds: float = 60
    ) -> float:
        """Poll until nothing is missing, and return how long it took. A failure shows the state."""
        return await until_async(what, missing, seconds, self.evidence)

    async def reaches(self, job: str, phase: str | None, seconds: float = 60) -> float:
        """Wait for a phase (None: the job is gone); for Running and Suspended, also wait for the
        pods and conditions. Return how long it took.
        """

        async def missing() -> str:
            status = await self.status(job)
            if (seen := status.get("phase")) != phase:
                return f"{job} is {seen or 'not seen yet'}, not {phase}"
            if phase == "Suspended" and (left := status.get("replicas")):
                return f"{left} pods of {job} are left"
            if phase != "Running":
                return ""
            # In a job with tasks, `replicas` counts only the pods of the last task.
            wanted = status.get("desired" if "taskStatus" in status else "replicas")
            if (ready := status.get("readyReplicas")) != wanted:
                return f"{ready} ranks of {job} are ready"
            service = self.channel or await self.kube.find(services(self.namespace, job))
            return "" if service else f"{job} has no service"

        return await self.until(f"{job} {phase}", missing, seconds)

    async def counted(self, job: str) -> None:
        """Wait until the status counts all pods. The operator writes these counts rarely."""

        async def wrong() -> str:
            there = len(await self.pods(job))
            said = (await self.status(job)).get("replicas")
            return "" if said == there else f"the status says {said} pods of {job}, not {there}"

        await self.until(f"the pods of {job} are counted", wrong)

    async def reconciled(self, least: int, seconds: float = 60) -> None:
        """Wait until the running operator has performed at least `least` reconciliations."""

        async def missing() -> str:
            done = await self.operator.metric("dijob_reconciliations_total")
            return "" if done >= least else f"{done:g} passes of {least}"

        await self.until("passes", missing, seconds)

    async def watching(self, seconds: float = 60, within: str = "") -> None:
        """Wait until the watches of pods, services and DIJobs are open. The path of each watch must
        contain `within`, followed by a slash and the kind.
        """

        async def missing() -> str:
            absent = [
                part
                for part in ("/pods", "/services", "/dijobs")
                if not self.proxy.watches(within + part)
            ]
            return f"no watch of {', '.join(absent)}" if absent else ""

        await self.until("watches", missing, seconds)

    async def snapshot(self, job: str) -> Json:
        """Return the job and its children. Values that differ between runs are masked (Sieve's
        oracle, OSDI'22). For a pod with a channel, the snapshot uses the peer list that the
        pod's launcher has received.
        """
        body = await self.kube.find(jobs(self.namespace, job))
        found = await self.pods(job)
        lists = await self.channel.launchers.lists() if self.channel else {}
        for pod in found.values():
            meta = pod["metadata"]
            meta["annotations"] = (meta.get("annotations") or {}) | lists.get(meta["uid"], {})
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
        """Return the state for the message of a failed test."""
        writes = "; ".join(map(str, self.proxy.writes[-12:]))
        cpu = self.operator.usage().cpu
        return f"last writes: {writes}\nCPU: {cpu:g} s\n{self.operator.evidence()}"


# Creates lanes, each in a new namespace.
Lanes = Callable[[], AbstractAsyncContextManager[Lane]]


def _uid(body: Json | None) -> str:
    return str(((body or {}).get("metadata") or {}).get("uid") or "no uid")


def _pod(pod: Json, siblings: dict[str, Json]) -> Json:
    """Return a pod without the values that the cluster determines. Its peer list is replaced with a
    string that says whether the list is correct.
    """
    meta, spec = pod["metadata"], pod["spec"]
    truth = {int(name.rpartition("-")[2]): p["status"].get("podIP") for name, p in siblings.items()}
    own = {pod["status"].get("podIP"): "its own address"}
    annotations = {
        k: own.get(v, v) if k == names.ANNOTATION_POD_IP else _addresses(v, truth)
        for k, v in (meta.get("annotations") or {}).items()
        if k not in UNCOMPARED
    }
    # The volume with the service account token, which the apiserver adds.
    volumes = [v for v in spec["volumes"] if "projected" not in v]
    containers = [{k: v for k, v in c.items() if k != "volumeMounts"} for c in spec["containers"]]
    for container in containers:
        # The key of each pod is random.
        container["env"] = [
            {"name": one["name"]} if one["name"] == CHANNEL else one
            for one in container.get("env", ())
        ]
    return {
        "labels": meta["labels"],
        "annotations": annotations,
        "containers": containers,
        "volumes": volumes,
        "phase": pod["status"].get("phase"),
        "deleting": "deletionTimestamp" in meta,
    }


def _either_word(status: Any) -> Any:
    """Unify the messages of a loss.

    A pod that is deleted without grace is observed either while it is being deleted, or only after
    it is gone.
    """
    renewal = (status or {}).get("lastRenewal") or {}
    if renewal.get("reason") in ("PodDeleted", "PodLost"):
        renewal["message"] = re.sub(
            r"(its pod is gone|pod \S+ is being deleted)", "GONE", renewal["message"]
        )
        renewal["reason"] = "GONE"
    return status


def _without_refusal(status: Any) -> Any:
    """Remove ChangesRefused if it is False: then it reports only past rejections. Without faults, a
    job does not have this condition.
    """
    over = ("ChangesRefused", "False")
    conditions = (status or {}).get("conditions", ())
    kept = [one for one in conditions if (one["type"], one["status"]) != over]
    return {**status, "conditions": kept} if conditions else status


def _addresses(text: str, truth: dict[int, str]) -> str:
    """Replace a list of IP addresses with a string that says whether the list matches the existing
    pods. Return any other text unchanged, including a list of names.
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
    """Return the value without times, uids, versions or nodes."""
    if isinstance(value, dict):
        return {k: "MASKED" if MASKED.search(k) else mask(v) for k, v in value.items()}
    return [mask(v) for v in value] if isinstance(value, list) else value


def difference(wanted: Any, found: Any, at: str = "") -> list[str]:
    """Describe the differences between two states."""
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
    kube: Kube,
    namespace: str,
    folder: Path,
    others: tuple[str, ...] = (),
    *,
    channel: bool = False,
) -> AsyncIterator[Lane]:
    """Yield a lane with a running operator, which also serves the namespaces `others`. At the end,
    the operator is stopped, and the deletion of the namespace begins. With a `channel`, the
    launchers of all pods are simulated, so their addresses must be those of this machine
    (loopback_pods).
    """
    await make_namespace(kube, namespace)
    census = Census()
    counting = asyncio.create_task(census.follow(kube, namespace))
    try:
        async with AsyncExitStack() as stack:
            proxy = await stack.enter_async_context(Proxy(kube.access, folder))
            way = None
            if channel:
                way = await stack.enter_async_context(open_channel(kube.access, namespace))
            log, options = folder / f"{namespace}.log", way.options() if way else ()
            operator = Operator(proxy.kubeconfig, log, (namespace, *others), options)
            await stack.enter_async_context(operator)
            made = Lane(kube, namespace, proxy, operator, census, way)
            await made.watching()
            yield made
            if counting.done():
                counting.result()
    finally:
        counting.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError):
            await counting
        await kube.delete(f"/api/v1/namespaces/{namespace}")
