"""Reads the data that a job with a queue needs in addition to its Workloads. The data consists of
the value of the job's priority class, the ResourceFlavors that Kueue has assigned, and the state of
the job's queue.

Priority classes, flavors and queues are not watched. A flavor is read when pods must be created.
The LocalQueue and its ClusterQueue are read only for the message of a waiting job. Before a job
grows for the first time, a dry run shows whether Kueue can replace a Workload with a larger one.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dijob.api.model import DIJob
from dijob.controller.cache.workloads import Workloads
from dijob.core.backoff import doubled_wait
from dijob.core.decide.queueing import admitted_size, missing_flavors
from dijob.core.decide.requeue import ASK_AGAIN_SECONDS
from dijob.core.observed.queue_views import Flavor, LocalQueue, QueueView, Quota
from dijob.core.observed.slices import arrange_workloads
from dijob.core.observed.views import Pod
from dijob.core.observed.workloads import parse_flavor, parse_queue
from dijob.core.options import Options
from dijob.core.render.scheduling import engine_of, kueue
from dijob.core.report.queue_quota import parse_quota
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import (
    CLUSTER_QUEUES,
    FLAVORS,
    LOCAL_QUEUES,
    POD_PRIORITIES,
    WORKLOAD_PRIORITIES,
    WORKLOADS,
)
from dijob.names import Engine
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# The shortest and the longest interval between two reads of a job's LocalQueue while the job waits
# to start or to grow. The interval doubles with each read, up to the longest interval.
READ_AGAIN_SECONDS = (10.0, 300.0)
# How long a flavor is cached for all jobs. Administrators rarely change flavors.
FLAVOR_SECONDS = 60.0
# How long the result of the dry run is cached for all jobs. The result changes only when
# Kueue restarts with another configuration.
SLICES_SECONDS = 300.0
# If Kueue can replace Workloads, its webhook rejects the dry run with a message that contains this
# text.
HAS_SLICES = "elastic job"


@dataclass
class QueueMemory:
    """What is known about a job's queue. `view` is the newest view, as the plan uses it. `due` is
    the time of the next read of the LocalQueue (monotonic seconds), and `reads` is the number of
    consecutive reads so far.
    """

    view: QueueView = field(default_factory=QueueView)
    flavors: dict[str, Flavor] = field(default_factory=dict)
    priority: int | None = None
    priority_class: str = ""
    unread: str = ""
    local: LocalQueue | None = None
    quota: Quota | None = None
    slices: bool | None = None
    absent: bool = False
    due: float = 0.0
    reads: int = 0


class QueueReader:
    """Reads Kueue objects into a QueueMemory. Without `workloads`, the operator does not use
    Kueue.
    """

    def __init__(
        self, api: Api, workloads: Workloads | None, options: Options, clock: Clock = SYSTEM
    ) -> None:
        self._api = api
        self._workloads = workloads
        self._options = options
        self._clock = clock
        # The flavors, with the times at which they must be read again.
        self._flavors: dict[str, tuple[Flavor, float]] = {}
        # Whether Kueue can replace Workloads, and when this must be checked again.
        self._slices: tuple[bool | None, float] = None, 0.0

    def admitted(self, job: DIJob, memory: QueueMemory) -> DIJob:
        """Update the view of the job's queue. Return the job, limited to the number of ranks that
        Kueue has admitted.
        """
        store = self._workloads
        if store is None:
            return job
        found, growth, others = arrange_workloads(
            store.of(job.metadata.owner_key), kueue.workload_name(job)
        )
        known = store.listed
        memory.view = view = QueueView(
            enabled=True,
            served=store.served or known,
            known=known,
            workload=found,
            growth=growth,
            others=others,
            slices=memory.slices,
            unread=memory.unread if known else store.problem,
            flavors=dict(memory.flavors),
            priority=memory.priority,
            local=memory.local,
            quota=memory.quota,
            absent=memory.absent,
            digest=kueue.workload_digest(job) if found else "",
            read_in=memory.due - self._clock.monotonic() if memory.due else None,
        )
        size = admitted_size(job, view)
        if size >= job.spec.desired:
            return job
        memory.view = replace(view, held_back=job.spec.desired - size)
        return job.resized(size)

    async def read(self, job: DIJob, pods: Iterable[Pod], memory: QueueMemory) -> None:
        """Read the objects that the next plan needs."""
        view, store = memory.view, self._workloads
        over = job.status.ended or job.metadata.deletion_timestamp or job.paused
        if store is None or not view.known or over or job.spec.suspend:
            return
        pods = tuple(pods)
        if engine_of(job, self._options.engine, pods, True) is not Engine.KUEUE:
            return
        memory.unread = ""
        try:
            if view.workload is None:
                await self._read_priority(job, memory)
            elif not view.workload.runs:
                memory.flavors.clear()
                await self._read_queue(job, memory)
            else:
                await self._read_for_running(job, pods, memory)
        except RequestError as error:
            if error.status not in (401, 403, 404):
                raise
            memory.unread = error.message
            self._set_due(memory)

    async def _read_for_running(
        self, job: DIJob, pods: tuple[Pod, ...], memory: QueueMemory
    ) -> None:
        view = memory.view
        if view.growth is None:
            memory.reads, memory.due = 0, 0.0
        # `foreign` is also true for the pod of the job's Redis server.
        missing = sum(not pod.made.foreign for pod in pods) < job.spec.desired
        if missing or (job.server and job.server not in {pod.name for pod in pods}):
            await self._read_flavors(job, memory)
        if view.growth is not None:
            await self._read_queue(job, memory)
        elif view.held_back and kueue.queue_name(job):
            await self._find_slices(job, memory)
            if memory.slices:
                await self._read_priority(job, memory)

    async def _find_slices(self, job: DIJob, memory: QueueMemory) -> None:
        """Find out whether Kueue can replace a Workload with a larger one."""
        now = self._clock.monotonic()
        memory.slices, until = self._slices
        if until > now:
            return
        path, wait = WORKLOADS.path(job.metadata.namespace), SLICES_SECONDS
        try:
            await self._api.create(path, kueue.growth_probe(job), dry_run=True)
            memory.slices = False
        except RequestError as error:
            memory.slices = True if HAS_SLICES in error.message else None
            if memory.slices is None:
                # The webhook does not respond while Kueue is down. The job keeps its size for now.
                log.warning("cannot find out whether Kueue supports growing jobs: %s", error)
                wait = ASK_AGAIN_SECONDS
        self._slices = memory.slices, now + wait

    async def _read_priority(self, job: DIJob, memory: QueueMemory) -> None:
        reference = kueue.priority_reference(job, self._options)
        name = f"{reference.get('kind')}/{reference.get('name')}"
        if memory.priority is not None and name == memory.priority_class:
            return
        memory.priority = None
        if not reference:
            memory.priority, memory.priority_class = 0, name
            return
        own = reference["kind"] == WORKLOAD_PRIORITIES.name
        kind = WORKLOAD_PRIORITIES if own else POD_PRIORITIES
        body = await self._api.get(kind.path("", reference["name"]))
        memory.priority, memory.priority_class = int(body.get("value") or 0), name

    async def _read_flavors(self, job: DIJob, memory: QueueMemory) -> None:
        admitted = memory.view.workload
        assert admitted is not None
        now = self._clock.monotonic()
        for name in missing_flavors(admitted, memory.flavors):
            known, until = self._flavors.get(name, (Flavor(), 0.0))
            if until <= now:
                known = parse_flavor(await self._api.get(FLAVORS.path("", name)))
                self._flavors[name] = known, now + FLAVOR_SECONDS
            memory.flavors[name] = known

    async def _read_queue(self, job: DIJob, memory: QueueMemory) -> None:
        if memory.due > self._clock.monotonic():
            return
        self._set_due(memory)
        path = LOCAL_QUEUES.path(job.metadata.namespace, kueue.queue_name(job))
        try:
            memory.local, memory.absent = parse_queue(await self._api.get(path)), False
        except RequestError as error:
            if not error.not_found:
                raise
            memory.local, memory.quota, memory.absent = None, None, True
            return
        await self._read_quota(memory, memory.local.cluster_queue)

    async def _read_quota(self, memory: QueueMemory, name: str) -> None:
        """Read the ClusterQueue, whose status is used only in the message of a waiting job."""
        memory.quota = None
        try:
            if name:
                memory.quota = parse_quota(await self._api.get(CLUSTER_QUEUES.path("", name)))
        except RequestError as error:
            if error.status not in (401, 403, 404):
                raise
            log.debug("the ClusterQueue %s cannot be read: %s", name, error)

    def _set_due(self, memory: QueueMemory) -> None:
        memory.reads += 1
        wait = doubled_wait(memory.reads, READ_AGAIN_SECONDS)
        memory.due = self._clock.monotonic() + wait
