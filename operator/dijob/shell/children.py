"""What the operator creates, as last seen: the pods and services of all jobs."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from dijob import names
from dijob.api.model import DIJob
from dijob.core.observed.parse import pod, service
from dijob.core.observed.views import Pod, Service
from dijob.shell.api import Api, Stream
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.store import Store
from dijob.shell.workqueue import Key, WorkQueue

SELECTOR = f"{names.MANAGED_BY}={names.MANAGER}"


@dataclass(frozen=True)
class Children:
    """A store per kind, each with one list and watch per namespace that is watched."""

    pods: Store[Pod]
    services: Store[Service]

    @staticmethod
    def of(namespaces: tuple[str, ...], clock: Clock = SYSTEM) -> "Children":
        pods = Store("pods", _streams("pods", namespaces), pod, clock)
        return Children(pods, Store("services", _streams("services", namespaces), service, clock))

    def wake(self, key_of: Callable[[str], Key | None], queue: WorkQueue) -> None:
        """An event about a child asks for a pass over its job."""

        def changed(owner: str) -> None:
            if key := key_of(owner):
                queue.add(key, background=not self.listed)

        self.pods.on_change = self.services.on_change = changed

    async def run(self, api: Api) -> None:
        """List and watch until cancelled."""
        await asyncio.gather(self.pods.run(api), self.services.run(api))

    @property
    def listed(self) -> bool:
        """Whether everything has been listed once."""
        return self.pods.listed and self.services.listed

    async def synced(self) -> None:
        """Wait until everything has been listed once."""
        await asyncio.gather(self.pods.synced(), self.services.synced())

    async def read(self, api: Api, job: DIJob) -> None:
        """Ask for one job's children, ahead of the list of everybody's, which takes seconds where there are thousands.

        By label, so what somebody took the label off is not found: good for jobs that have only just been created.
        """
        meta = job.metadata
        labels = (names.LABEL_JOB, names.LABEL_SERVER) if job.server else (names.LABEL_JOB,)
        for label in labels:
            selector = f"{SELECTOR},{label}={meta.name}"
            await self.pods.read(api, collection("pods", meta.namespace), selector)
            await self.services.read(api, collection("services", meta.namespace), selector)


def _streams(plural: str, namespaces: tuple[str, ...]) -> tuple[Stream, ...]:
    return tuple(Stream(collection(plural, namespace), SELECTOR) for namespace in namespaces or ("",))


def collection(plural: str, namespace: str = "") -> str:
    """Where the pods or services of a namespace are; "": of all."""
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/api/v1{within}/{plural}"
