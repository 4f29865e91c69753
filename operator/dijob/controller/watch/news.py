"""Queues a job when one of its children has changed, or the launcher of one of its pods has
reported.

While the pods of a job start, each of them changes several times, and only the last of these
changes completes the peer list. So the operator collects the changes during a start, and
reconciles the job as soon as no pod is starting.
"""

from dijob.controller.cache.children import Children
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler


class News:
    """Puts jobs whose children have changed into the queue."""

    def __init__(self, reconciler: Reconciler, queue: WorkQueue, children: Children) -> None:
        self._reconciler = reconciler
        self._queue = queue
        self._children = children
        # The owners whose pods were starting at the last change.
        self._starting: set[str] = set()

    def connect(self) -> None:
        """Listen to the stores of the children, and to the launchers."""
        for store in self._children.watched:
            store.on_change = self.changed
        self._reconciler.launchers.on_change = self.changed

    def changed(self, owner: str) -> None:
        """Queue the job that owns a changed child."""
        if not (key := self._reconciler.jobs.key_of_owner(owner)):
            self._starting.discard(owner)
        elif not self._children.listed:
            # The initial list reports all children of all jobs, although none of them has changed.
            # These jobs must not delay a job that has just been created.
            self._queue.add(key, background=True)
        elif self._reconciler.has_starting_pods(owner):
            self._starting.add(owner)
            self._queue.add_progress(key)
        elif owner in self._starting:
            self._starting.discard(owner)
            self._queue.add(key)
        else:
            self._queue.add_news(key)
