"""The stores of the objects that the operator creates for jobs: pods, Services, NetworkPolicies."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.controller.cache.informer import Informer
from dijob.controller.cache.workloads import Workloads
from dijob.core.observed.sandbox import with_remembered
from dijob.core.observed.views import Child, Pod, Route
from dijob.kube.api import Api, Stream
from dijob.kube.kinds import CHILDREN, PODS, POLICIES, SELECTOR, SERVICES
from dijob.process.clock import SYSTEM, Clock


@dataclass(frozen=True)
class Children:
    """One store per watched kind, each with a list-and-watch per namespace."""

    stores: Mapping[str, Informer[Any]]
    # None if the operator does not use Kueue. When all other objects have been listed, the
    # Workloads may still be missing (workloads.py).
    workloads: Workloads | None = None

    @staticmethod
    def of(
        namespaces: tuple[str, ...],
        clock: Clock = SYSTEM,
        *,
        isolates: bool = False,
        queues: bool = False,
    ) -> "Children":
        """Create the stores for these namespaces, or for the whole cluster if there are none.

        With `isolates`, the NetworkPolicies of jobs are watched too. With `queues`, the Workloads
        of jobs are watched too.
        """
        stores = dict[str, Informer[Any]]()
        for kind in CHILDREN.values():
            if kind.view and (isolates or kind is not POLICIES):
                streams = tuple(Stream(kind.path(name), SELECTOR) for name in namespaces or ("",))
                # Only the pod store has to keep facts that the newer version of an object no
                # longer contains.
                merge = with_remembered if kind is PODS else None
                stores[kind.name] = Informer(kind.plural, streams, kind.view, clock, merge)
        return Children(stores, Workloads(namespaces, clock) if queues else None)

    @property
    def pods(self) -> Informer[Pod]:
        return self.stores[PODS.name]

    def policies(self, job: DIJob) -> Mapping[str, Child]:
        """Return the job's NetworkPolicies by name."""
        store = self.stores.get(POLICIES.name)
        found = store.of(job.metadata.owner_key) if store else ()
        return {each.name: each for each in found}

    def routes(self, owner: str) -> Mapping[str, Route]:
        """Return the routes of the job's Services. The keys are the names of the Services."""
        found = self.stores[SERVICES.name].of(owner)
        return {each.name: each.route for each in found if each.route}

    def existing(self, owner: str) -> frozenset[str]:
        """Return the job's watched objects other than pods, each as "service/NAME"."""
        others = ((kind, store) for kind, store in self.stores.items() if kind != PODS.name)
        return frozenset(
            f"{kind.lower()}/{o.name}" for kind, store in others for o in store.of(owner)
        )

    def contended(self, owner: str) -> bool:
        """Whether pods of this job and of another DIJob are unscheduled at the same time."""
        return any(pod.seeks_node for pod in self.pods.of(owner)) and any(
            pod.lacks_room and pod.owner != owner for pod in self.pods
        )

    async def run(self, api: Api) -> None:
        """List and watch until canceled."""
        await asyncio.gather(*(store.run(api) for store in self.watched))

    @property
    def watched(self) -> tuple[Informer[Any], ...]:
        """All stores."""
        return (*self.stores.values(), *([self.workloads] if self.workloads is not None else ()))

    def renew(self) -> None:
        """Restart all watches: an open watch may be dead without having reported an error."""
        for store in self.watched:
            for reflector in store.reflectors:
                reflector.renew()

    @property
    def listed(self) -> bool:
        """Whether the initial lists are complete."""
        return all(store.listed for store in self.stores.values())

    async def synced(self) -> None:
        """Wait until the initial lists are complete."""
        await asyncio.gather(*(store.synced() for store in self.stores.values()))

    async def read(self, api: Api, job: DIJob) -> None:
        """Read the children of one job without waiting for the initial list, which takes seconds
        if there are thousands of pods.

        Children whose labels were removed are not found. So this method is used only for jobs that
        were just created.
        """
        meta = job.metadata
        # The pod of the job's Redis server has a different owner label from the pods of the ranks.
        for label in names.OWNER_LABELS if job.server else names.OWNER_LABELS[:1]:
            selector = f"{SELECTOR},{label}={meta.name}"
            for kind, store in self.stores.items():
                await store.read(api, CHILDREN[kind].path(meta.namespace), selector)
