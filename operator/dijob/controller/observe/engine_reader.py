"""Reads the object of a job's engine, such as its PodGroup (core/render/scheduling).

Engine objects are not watched: most clusters do not serve their API, and a watch would be rejected
again and again. The operator writes the object itself and knows its content. So the operator reads
the object only while ranks lack a pod or a node, to find out whether someone has deleted it.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dijob.api.model import DIJob
from dijob.core.backoff import doubled_wait
from dijob.core.observed import rejections
from dijob.core.observed.parse import owner_of
from dijob.core.observed.views import ApiRejection, EngineView, Pod, SchedulingObject
from dijob.core.options import Options
from dijob.core.render.scheduling import (
    ENGINES,
    EngineRow,
    engine_of,
    object_key,
    object_name,
)
from dijob.kube.api import Api, RequestError
from dijob.kube.kinds import SCHEDULING
from dijob.names import Engine
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# Interval at which the operator checks, for all jobs together, whether the cluster serves an API.
UNSERVED_SECONDS = 60.0
# The shortest and the longest interval between two reads while ranks lack a pod or a node. The
# interval doubles with each read until it reaches the longest interval.
READ_AGAIN_SECONDS = (10.0, 300.0)


@dataclass
class EngineMemory:
    """What is known about the object of a job's engine. `found` maps the object's key to its view,
    or to None if the object does not exist. The key contains the object's name. When a suspended
    job is resumed, it gets a new object with a different name. `due` is the time of the next read
    (monotonic seconds), and `reads` is the number of consecutive reads so far.
    """

    found: dict[str, SchedulingObject | None] = field(default_factory=dict)
    served: bool = True
    due: float = 0.0
    reads: int = 0

    def put(self, body: Mapping[str, Any]) -> None:
        """Remember an object from a response of the API server."""
        meta = body["metadata"]
        key = object_key(body["apiVersion"], body["kind"], meta["name"])
        self.found[key] = SchedulingObject(
            name=meta["name"],
            uid=meta["uid"],
            owner=owner_of(meta),
            spec=body.get("spec") or {},
            deleting=bool(meta.get("deletionTimestamp")),
        )

    def forget(self, key: str) -> None:
        """Forget an object that is gone or has changed, so that it is read again."""
        self.found.pop(key, None)
        self.due = 0.0

    def view(self, job: DIJob, engine: Engine) -> EngineView:
        """Return the job's engine and the engine's object."""
        key = ENGINES[engine].key(object_name(job))
        return EngineView(
            engine=engine,
            served=self.served,
            known=key in self.found,
            found=self.found.get(key),
        )


class EngineReader:
    """Reads engine objects into an EngineMemory."""

    def __init__(self, api: Api, options: Options, clock: Clock = SYSTEM) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        # The end of the pause (monotonic seconds) for each API that the cluster does not serve.
        self._unserved: dict[str, float] = {}

    async def read(
        self,
        job: DIJob,
        pods: Iterable[Pod],
        memory: EngineMemory,
        refused: dict[str, ApiRejection],
    ) -> None:
        """Read the object if a read is due. A rejection is noted in `refused`."""
        if job.status.ended or job.metadata.deletion_timestamp or job.paused:
            return
        pods = tuple(pods)
        options, now = self._options, self._clock.monotonic()
        row = ENGINES[engine_of(job, options.engine, pods, options.queues)]
        if not row.kind or not self._is_due(job, row, pods, memory, now):
            return
        if self._unserved.get(row.api, 0.0) > now:
            memory.served = False
            return
        if row.api in self._unserved:
            # Only one job at a time checks whether the API is served. The others wait for the
            # result.
            self._unserved[row.api] = now + UNSERVED_SECONDS
        await self._read(job, row, memory, refused)

    def _is_due(
        self,
        job: DIJob,
        row: EngineRow,
        pods: tuple[Pod, ...],
        memory: EngineMemory,
        now: float,
    ) -> bool:
        if job.status.suspend_time:  # the object must be deleted, if it exists
            return row.key(object_name(job)) not in memory.found and memory.due <= now
        # `foreign` is also true for the pod of the job's Redis server.
        ranks = [pod for pod in pods if not pod.made.foreign]
        if len(ranks) >= job.spec.desired and all(pod.scheduled for pod in ranks):
            memory.reads, memory.due = 0, 0.0
            return False
        return memory.due <= now

    async def _read(
        self,
        job: DIJob,
        row: EngineRow,
        memory: EngineMemory,
        refused: dict[str, ApiRejection],
    ) -> None:
        name, now = object_name(job), self._clock.monotonic()
        key = f"get {row.key(name)}"
        memory.reads += 1
        memory.due = now + doubled_wait(memory.reads, READ_AGAIN_SECONDS)
        try:
            body = await self._api.get(SCHEDULING[row.full_kind].path(job.metadata.namespace, name))
        except RequestError as error:
            if error.not_found:
                self._note_absent(row, name, memory, error)
            elif error.status in (401, 403) and not await self._serves(row):
                self._note_unserved(row, name, memory, error)
            elif error.status in (401, 403):
                before, time = refused.get(key), self._clock.now()
                refused[key] = rejections.of_change(error.status, error.message, before, time)
                return
            else:
                raise
        else:
            memory.served = True
            self._unserved.pop(row.api, None)
            memory.put(body)
            found = memory.found[row.key(name)]
            # An object with this name that has another owner is treated as absent. Creating the
            # job's object then fails because the name is taken, and the error names the owner.
            if found is not None and found.owner != job.metadata.owner_key:
                memory.found[row.key(name)] = None
        refused.pop(key, None)

    def _note_absent(
        self, row: EngineRow, name: str, memory: EngineMemory, error: RequestError
    ) -> None:
        """Record that the object does not exist, or that the cluster does not serve its kind. The
        error contains the object's name only if the kind is served.
        """
        memory.served = f'"{name}" not found' in error.message
        if memory.served:
            self._unserved.pop(row.api, None)
            memory.found[row.key(name)] = None
            return
        self._note_unserved(row, name, memory, error)

    async def _serves(self, row: EngineRow) -> bool:
        """Whether the cluster serves the kind. If the operator lacks permission for a kind, the API
        server responds with 403 whether or not it serves the kind.
        """
        try:
            found = await self._api.get(f"/apis/{row.api}")
        except RequestError as error:
            if error.not_found:
                return False
            raise
        return any(one.get("name") == row.plural for one in found.get("resources") or ())

    def _note_unserved(
        self, row: EngineRow, name: str, memory: EngineMemory, error: RequestError
    ) -> None:
        memory.served = False
        memory.forget(row.key(name))
        if row.api not in self._unserved:
            log.warning("the cluster does not serve %s of %s: %s", row.kind, row.api, error)
        self._unserved[row.api] = self._clock.monotonic() + UNSERVED_SECONDS
