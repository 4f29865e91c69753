"""Handles the events of the DIJob watch, and decides how urgent the first reconciliation is.

When the operator starts, the watch lists all jobs, and most of them need no work. Jobs that already
have a phase are queued in the background. Otherwise, a new job would have to wait behind a thousand
running ones. Jobs in the background are also held back until the pods have been listed. A
reconciliation that does not know the existing pods would create them again.
"""

import logging
from collections.abc import Mapping
from typing import Any

from dijob.controller import logs
from dijob.controller.cache.children import Children
from dijob.controller.queue.quarantine import name_of
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler

log = logging.getLogger(__name__)


class Arrivals:
    """Puts jobs into the queue."""

    def __init__(self, reconciler: Reconciler, queue: WorkQueue, children: Children) -> None:
        self._reconciler = reconciler
        self._queue = queue
        self._children = children

    def seen(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """Handle one event. `type_` is None for an object of the initial list."""
        if type_ == "DELETED":
            # A deleted job is not queued: the garbage collector deletes its children, and there is
            # no status to write.
            self._reconciler.forget(body["metadata"]["uid"])
        elif key := self._reconciler.jobs.put(body, shown=True):
            # A job from the initial list that already has a phase was started by an earlier
            # process. The CRD gives each new job a status without a phase.
            nothing_new = type_ is None or not self._children.listed
            started = bool((body.get("status") or {}).get("phase"))
            self._queue.add(key, background=nothing_new and started)

    def all_gone(self) -> None:
        """Forget all jobs. The CRD was deleted, so no events report the deletion of the jobs."""
        for uid in self._reconciler.jobs.uids():
            self._reconciler.forget(uid)

    def quarantine(self, body: Mapping[str, Any], error: Exception) -> None:
        """Quarantine a job whose event cannot be handled."""
        name = name_of(body)
        logs.JOB.set(name)
        self._reconciler.quarantine.put(name, error)

    async def release(self) -> None:
        """Wait for the initial lists of the children, then start the background reconciliations."""
        await self._children.synced()
        log.info(
            "initial list complete (%d pods of DIJobs): reconciling the existing jobs",
            len(self._children.pods),
        )
        self._queue.release()
