"""What the watch of DIJobs shows, and what waits until the children are known: how a job comes to
its first pass.
"""

import logging
from collections.abc import Mapping
from typing import Any

from dijob.shell import logs
from dijob.shell.aside import name_of
from dijob.shell.children import Children
from dijob.shell.reconcile import Reconciler
from dijob.shell.workqueue import WorkQueue

log = logging.getLogger(__name__)


class Arrivals:
    """Takes in the events of DIJobs, and lets the background begin."""

    def __init__(self, reconciler: Reconciler, queue: WorkQueue, children: Children) -> None:
        self._reconciler = reconciler
        self._queue = queue
        self._children = children

    def seen(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """One event; `type_` is None for what a list shows."""
        if type_ == "DELETED":
            self._reconciler.forget(body["metadata"]["uid"])
        elif key := self._reconciler.jobs.put(body, shown=True):
            # Nothing has happened to a job of the first list that has been started before.
            nothing_new = type_ is None or not self._children.listed
            self._queue.add(key, background=nothing_new and "status" in body)

    def all_gone(self) -> None:
        """The CRD was deleted, and all jobs with it."""
        for uid in self._reconciler.jobs.uids():
            self._reconciler.forget(uid)

    def aside(self, body: Mapping[str, Any], error: Exception) -> None:
        """One that cannot be taken in."""
        name = name_of(body)
        logs.JOB.set(name)
        self._reconciler.aside.put(name, error)

    async def release(self) -> None:
        """A job that has been started before waits until its children are known: a pod that is
        there and not known would be created again.
        """
        await self._children.synced()
        log.info(
            "initial list complete (%d pods of DIJobs): reconciling the existing jobs",
            len(self._children.pods),
        )
        self._queue.release()
