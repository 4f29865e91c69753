"""The objects that the operator has created, as last seen."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.observed.views import Child, Pod
from dijob.shell.api import Api, Stream
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.informer import Informer
from dijob.shell.kinds import CHILDREN, PODS, POLICIES, SELECTOR
from dijob.shell.workqueue import Key, WorkQueue


@dataclass(frozen=True)
class Children:
    """A store for each kind that is watched, by its name, with a list and watch per namespace."""

    stores: Mapping[str, Informer[Any]]

    @staticmethod
    def of(
        namespaces: tuple[str, ...], clock: Clock = SYSTEM, *, isolates: bool = False
    ) -> "Children":
        """`isolates`: also the NetworkPolicies of jobs."""
        stores = dict[str, Informer[Any]]()
        for kind in CHILDREN.values():
            if kind.view and (isolates or kind is not POLICIES):
                streams = tuple(Stream(kind.path(name), SELECTOR) for name in namespaces or ("",))
                stores[kind.name] = Informer(kind.plural, streams, kind.view, clock)
        return Children(stores)

    @property
    def pods(self) -> Informer[Pod]:
        return self.stores[PODS.name]

    def policies(self, job: DIJob) -> Mapping[str, Child]:
        """The job's NetworkPolicies, by name."""
        store = self.stores.get(POLICIES.name)
        found = store.of(job.metadata.owner_key) if store else ()
        return {each.name: each for each in found}

    def existing(self, owner: str) -> frozenset[str]:
        """A job's watched objects besides its pods, each as "service/x"."""
        others = ((kind, store) for kind, store in self.stores.items() if kind != PODS.name)
        return frozenset(
            f"{kind.lower()}/{o.name}" for kind, store in others for o in store.of(owner)
        )

    def contended(self, owner: str) -> bool:
        """Whether pods of this job, and of another one, seek a node."""
        return any(pod.seeks_node for pod in self.pods.of(owner)) and any(
            pod.lacks_room and pod.owner != owner for pod in self.pods
        )

    def connect(self, key_of: Callable[[str], Key | None], queue: WorkQueue) -> None:
        """From now on an event about a child asks for a pass over its job."""

        def changed(owner: str) -> None:
            if not (key := key_of(owner)):
                return
            if self.listed:
                queue.add_news(key)
            else:
                queue.add(key, background=True)

        for store in self.stores.values():
            store.on_change = changed

    async def run(self, api: Api) -> None:
        """List and watch until cancelled."""
        await asyncio.gather(*(store.run(api) for store in self.stores.values()))

    def renew(self) -> None:
        """Begin all watches anew: those that are open may have died in silence."""
        for store in self.stores.values():
            for reflector in store.reflectors:
                reflector.renew()

    @property
    def listed(self) -> bool:
        """Whether everything has been listed once."""
        return all(store.listed for store in self.stores.values())

    async def synced(self) -> None:
        """Wait until everything has been listed once."""
        await asyncio.gather(*(store.synced() for store in self.stores.values()))

    async def read(self, api: Api, job: DIJob) -> None:
        """Ask for one job's children, ahead of the list of all, which takes seconds for thousands.

        By label: an object without it is not found, so this is for jobs that have only just been
        created.
        """
        meta = job.metadata
        for label in names.OWNER_LABELS if job.server else names.OWNER_LABELS[:1]:
            selector = f"{SELECTOR},{label}={meta.name}"
            for kind, store in self.stores.items():
                await store.read(api, CHILDREN[kind].path(meta.namespace), selector)
