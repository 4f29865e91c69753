"""What the operator creates, as last seen: the pods of all jobs, and the other objects that are
watched."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dijob.api.model import DIJob
from dijob.core.observed.views import Pod
from dijob.shell.api import Api, Stream
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.kinds import CHILDREN, OWNER_LABELS, PODS, SELECTOR, Kind
from dijob.shell.store import Store
from dijob.shell.workqueue import Key, WorkQueue


@dataclass(frozen=True)
class Children:
    """A store for each kind that is watched, by its name, with a list and watch per namespace."""

    stores: Mapping[str, Store[Any]]

    @staticmethod
    def of(namespaces: tuple[str, ...], clock: Clock = SYSTEM) -> "Children":
        return Children(
            {
                kind.name: Store(kind.plural, _streams(kind, namespaces), kind.view, clock)
                for kind in CHILDREN.values()
                if kind.view
            }
        )

    @property
    def pods(self) -> Store[Pod]:
        return self.stores[PODS.name]

    def existing(self, owner: str) -> frozenset[str]:
        """A job's watched objects besides its pods, each as "service/x"."""
        return frozenset(
            f"{kind.lower()}/{one.name}"
            for kind, store in self.stores.items()
            if kind != PODS.name
            for one in store.of(owner)
        )

    def wake(self, key_of: Callable[[str], Key | None], queue: WorkQueue) -> None:
        """An event about a child asks for a pass over its job."""

        def changed(owner: str) -> None:
            if key := key_of(owner):
                queue.add(key, background=not self.listed)

        for store in self.stores.values():
            store.on_change = changed

    async def run(self, api: Api) -> None:
        """List and watch until cancelled."""
        await asyncio.gather(*(store.run(api) for store in self.stores.values()))

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
        for label in OWNER_LABELS if job.server else OWNER_LABELS[:1]:
            selector = f"{SELECTOR},{label}={meta.name}"
            for kind, store in self.stores.items():
                await store.read(api, CHILDREN[kind].path(meta.namespace), selector)


def _streams(kind: Kind, namespaces: tuple[str, ...]) -> tuple[Stream, ...]:
    return tuple(Stream(kind.path(namespace), SELECTOR) for namespace in namespaces or ("",))
