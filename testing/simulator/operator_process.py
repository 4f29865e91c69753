"""One process of the operator: the product's own controller, built as in main.py, with a simulation
of kopf's watch.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.controller.cache.children import Children
from dijob.controller.observe.memory import JobMemory
from dijob.controller.queue.workqueue import Key, KnownError, WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.news import News
from dijob.core.observed.views import Observed, Pod
from dijob.core.options import Delivery, Options
from dijob.kube.api import RequestError, Stream
from dijob.kube.kinds import JOBS

from simulator.cluster import Cluster
from simulator.connection import Line, Wire
from simulator.objects import Body, Selector, Target

RECONNECT_SECONDS = 0.5
Seen = tuple[DIJob, Observed]


class Recorded(Reconciler):
    """The real reconciler, which records the last observation of each job."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[Key, Seen] = {}

    def _observe(self, job: DIJob, memory: JobMemory) -> Observed:
        observed = super()._observe(job, memory)
        self.seen[job.metadata.namespace, job.metadata.name] = job, observed
        return observed


class Operator:
    """A process with an empty memory. `passes` counts its reconciliations; `line.problems` records
    violations.
    """

    def __init__(
        self,
        cluster: Cluster,
        line: Line,
        namespaces: tuple[str, ...] = (),
        options: Options | None = None,
    ) -> None:
        self.cluster = cluster
        self.line = line
        self.wire = Wire(cluster.server, cluster.watches, line)
        self.api = self.wire.api(cluster.clock)
        told = options or Options()
        self.children = Children.of(
            namespaces, cluster.clock, isolates=told.isolates, queues=told.queues
        )
        self.reconciler = Recorded(self.api, self.children, told)
        if told.launcher_delivery is Delivery.AUTO:
            self.reconciler.delivery.decide("1", "37")
        self.queue = WorkQueue(self._pass, 4, cluster.clock)
        News(self.reconciler, self.queue, self.children).connect()
        self.arrivals = Arrivals(self.reconciler, self.queue, self.children)
        self.audit = Audit(self.api, self.reconciler, self.queue, namespaces, cluster.clock)
        self.passes = 0
        self._namespaces = namespaces
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the process in the cluster's event loop."""
        parts: list[Callable[[], Awaitable[None]]] = [
            partial(self.children.run, self.api),
            self.queue.run,
            self.arrivals.release,
            self.audit.run,
            partial(self.reconciler.foreign_pods.run, self._namespaces),
            *(
                partial(self._watch_jobs, JOBS.path(namespace))
                for namespace in self._namespaces or ("",)
            ),
        ]
        self.reconciler.launchers.serve()
        self.reconciler.launchers.listen()
        self.cluster.channel = self.reconciler.launchers
        self._tasks = [self.cluster.loop.create_task(self._part(part)) for part in parts]

    async def takes_over(self) -> None:
        """Do what main.py does first when a standby becomes the leader."""
        self.children.renew()
        await self.audit.catch_up()

    async def stop(self) -> None:
        """Kill the process. None of its pending work is carried out."""
        self.wire.dead = True
        self.cluster.channel = None
        for pod in self.cluster.pods.values():
            if pod.link is not None:
                pod.said, pod.link = pod.link.said, None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def job(self, key: Key = ("ns", "job")) -> DIJob:
        """Return the job as the newest reconciliation parsed it."""
        return self.reconciler.seen[key][0]

    def views(self, key: Key = ("ns", "job")) -> dict[str, Pod]:
        """Return the pods that the newest reconciliation observed, by uid."""
        return {pod.uid: pod for pod in self.reconciler.seen[key][1].all_pods}

    def check_known(self) -> None:
        """Check that the stores match the cluster. Call this only when everything is idle."""
        server, shown = self.cluster.server, f"{names.MANAGED_BY}={names.MANAGER}"
        jobs_there = {
            body["metadata"]["uid"] for body in server.find(Selector(Target(names.PLURAL)))
        }
        assert set(self.reconciler.jobs.uids()) == jobs_there
        for store in self.children.stores.values():
            there = [store._view(body) for body in server.find(Selector(Target(store.kind), shown))]
            known = [
                one
                for owner in {one.owner for one in there} | jobs_there
                for one in store.of(owner)
            ]
            assert {one.uid: one for one in known} == {one.uid: one for one in there}

    async def _pass(self, key: Key) -> float | None:
        self.passes += 1
        await asyncio.sleep(0)  # let others run even if this reconciliation sends no request
        try:
            again = await self.reconciler.reconcile(key)
            # An exception would only quarantine the job. In this simulation, it must fail the test.
            if broken := self.reconciler.quarantine.why("/".join(key)):
                self.line.problems.append(AssertionError(broken))
            return again
        except (RequestError, KnownError, AssertionError):
            raise
        except Exception as error:
            self.line.problems.append(error)
            raise

    async def _part(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run a part of the operator. An error that ends the part is recorded as a problem."""
        try:
            await part()
        except Exception as error:
            self.line.problems.append(error)

    async def _watch_jobs(self, path: str) -> None:
        """Watch as kopf does: a list whose objects have no event type, then watches, and a new list
        after a 410. Deletions in between are never reported.
        """
        while True:
            try:
                listed = await self.api.get(path)
                for body in listed["items"]:
                    self.arrivals.seen(None, body)
                await self._follow(path, listed["metadata"]["resourceVersion"])
            except RequestError:
                pass
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow(self, path: str, version: str) -> None:
        while True:
            async for event in self.api.watch(Stream(path, "", version)):
                if event["type"] == "ERROR":
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.arrivals.seen(event["type"], _body(event))
            await asyncio.sleep(RECONNECT_SECONDS)


def _body(event: Body) -> Body:
    found: Body = event["object"]
    return found
