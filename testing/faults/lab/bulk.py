"""Fills a control plane with copies of a job that really ran, to simulate thousands of jobs."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, TypeVar

from faults.lab.kube import Json, Kube, jobs, pods, services

T = TypeVar("T")

CONCURRENT = 32
# An address range that is unused in the test cluster and large enough for 10,000 jobs.
ADDRESSES = ip_network("10.128.0.0/12")
# kwok ignores such a pod, because its status is a copy.
NO_START = "test.dijob/no-start"
# The simulated launcher of such a pod has already received this response (testing/launchers).
STORED = "test.dijob/stored"


async def for_all(items: Iterable[T], act: Callable[[T], Awaitable[Any]]) -> None:
    """Call `act` for all items, with limited concurrency."""
    room = asyncio.Semaphore(CONCURRENT)

    async def one(item: T) -> None:
        async with room:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(one(item))


@dataclass(frozen=True)
class Original:
    """A running job with all its objects. If its pods have a `channel`, there is no Service, and
    the launchers of the copies are simulated.
    """

    namespace: str
    job: Json
    pods: tuple[Json, ...]
    service: Json | None
    channel: bool

    @staticmethod
    async def of(kube: Kube, namespace: str, name: str, channel: bool) -> "Original":
        found = await kube.items(
            pods(namespace) + f"?labelSelector=diengine.opendilab.org/job={name}"
        )
        return Original(
            namespace,
            await kube.get(jobs(namespace, name)),
            tuple(sorted(found, key=lambda pod: str(pod["metadata"]["name"]))),
            await kube.find(services(namespace, name)),
            channel,
        )

    @property
    def name(self) -> str:
        return str(self.job["metadata"]["name"])

    def copy(self, body: Json, name: str, uid: str) -> Json:
        """Return a copy of an object with other names and another owner, without server-side
        fields.
        """
        text = json.dumps(body).replace(self.name, name).replace(self.job["metadata"]["uid"], uid)
        made: Json = json.loads(text)
        kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
        made["metadata"] = {key: value for key, value in made["metadata"].items() if key in kept}
        return made

    async def clone(self, kube: Kube, number: int) -> None:
        """Create the Running job with this number (0 to 9999), as the operator and the kubelets
        would have left it.
        """
        name = f"copy{number:04}"
        made = await kube.create(
            jobs(self.namespace), self.copy({**self.job, "status": None}, name, "")
        )
        uid = made["metadata"]["uid"]
        # A simulated launcher can only have an address of this machine.
        net = 127 if self.channel else 10
        ips = [
            f"{net}.{200 + number // 2500}.{number // 10 % 250}.{number % 10 * 16 + r + 1}"
            for r in range(len(self.pods))
        ]
        status = self.copy(self.job, name, uid)["status"]
        proof = hashlib.sha256(f"{status['listNumber']} {','.join(ips)}".encode()).hexdigest()[:32]
        status["addressList"] = {**status["addressList"], "digest": proof}
        await kube.patch(jobs(self.namespace, name) + "/status", {"status": status})
        if self.service:
            service = self.copy(self.service, name, uid)
            service["spec"] = {
                k: v
                for k, v in service["spec"].items()
                if k in ("clusterIP", "publishNotReadyAddresses", "selector", "ports")
            }
            await kube.create(services(self.namespace), service)
        for rank, pod in enumerate(self.pods):
            await self._clone_pod(kube, self.copy(pod, name, uid), ips, rank)

    async def _clone_pod(self, kube: Kube, pod: Json, ips: list[str], rank: int) -> None:
        annotations = pod["metadata"]["annotations"]
        if self.channel:
            said = {"list-number": str(self.job["status"]["listNumber"]), "node-ips": ",".join(ips)}
            annotations[STORED] = json.dumps(said)
        else:
            annotations["diengine.opendilab.org/node-ips"] = ",".join(ips)
        annotations[NO_START] = "true"
        status = pod.pop("status")
        await kube.create(pods(self.namespace), pod)
        status |= {"podIP": ips[rank], "podIPs": [{"ip": ips[rank]}]}
        await kube.patch(
            pods(self.namespace, pod["metadata"]["name"]) + "/status", {"status": status}
        )
