"""Compares the known DIJobs with a list from the apiserver once a minute.

If a job is deleted while kopf's watch is interrupted, kopf does not report the deletion. A
watch can also stop delivering events without an error. A job that was deleted unnoticed would be
reconciled forever, and each of its new pods would be garbage-collected at once. One LIST of
metadata detects both problems (docs/decisions/002).
"""

import asyncio
import logging

from dijob.controller.cache.jobs import WentBackError, version_key
from dijob.controller.queue.workqueue import WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.kube.api import Api, Json, RequestError
from dijob.kube.kinds import JOBS
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
LIST_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Audit:
    """Finds deletions that kopf's watch missed, and a watch that has stopped.

    `behind` is when the watch began to lag behind the list (monotonic seconds), or None. Only
    events of the watch affect `behind`. A version that the operator knows from the response to its
    own write does not show that the watch works.
    """

    def __init__(
        self,
        api: Api,
        reconciler: Reconciler,
        queue: WorkQueue,
        namespaces: tuple[str, ...],
        clock: Clock = SYSTEM,
    ) -> None:
        self._paths = [JOBS.path(namespace) for namespace in namespaces or ("",)]
        self._api = api
        self._clock = clock
        self._reconciler = reconciler
        self._queue = queue
        # Keys are the uids of jobs. The value is a version that the watch had not delivered at the
        # last audit, and the time when this version was first missing.
        self._unshown: dict[str, tuple[int, float]] = {}
        self.behind: float | None = None

    async def run(self) -> None:
        """Audit every minute (with jitter) until canceled. Raise WentBackError if etcd was restored
        from a backup.
        """
        while True:
            await asyncio.sleep(self._clock.spread(PERIOD_SECONDS, 0.1))
            try:
                await self._compare()
            except RequestError as error:
                log.warning("failed to list dijobs; the audit is postponed: %s", error)

    async def catch_up(self) -> None:
        """Read the jobs that the watch has not delivered.

        A new leader calls this after a takeover. The cause of the takeover, such as a lost node,
        may also have interrupted this replica's watches, even if they have reported no error yet.
        """
        try:
            there = await self._read()
            for uid, (path, version) in there.items():
                if self._reconciler.jobs.lacks(uid, version):
                    self._take(await self._api.get(path))
        except RequestError as error:
            log.warning("failed to list dijobs; the next audit will find missed changes: %s", error)

    def _take(self, body: Json) -> None:
        if key := self._reconciler.jobs.put(body):
            self._queue.add(key, background=True)

    async def _read(self) -> dict[str, tuple[str, str]]:
        """Return a map from the uid of each existing job to its path and resourceVersion. Forget
        all other jobs.
        """
        versions = self._reconciler.jobs.versions()
        # Collect the known jobs before the list requests, so that a job created during a request
        # is not treated as missing.
        known, there = set(self._reconciler.jobs.uids()), dict[str, tuple[str, str]]()
        for path in self._paths:
            listed = await self._api.get(path, accept=LIST_METADATA)
            for item in listed.get("items") or ():
                meta = item["metadata"]
                at = JOBS.path(meta["namespace"], meta["name"])
                there[meta["uid"]] = at, meta["resourceVersion"]
                if version_key(meta["resourceVersion"]) < (least := versions.get(meta["uid"], 0)):
                    what = f"{meta['namespace']}/{meta['name']}"
                    raise WentBackError(what, meta["resourceVersion"], least)
        for uid in known - set(there):
            self._reconciler.forget(uid)
        return there

    async def _compare(self) -> None:
        there, jobs = await self._read(), self._reconciler.jobs
        before, now = self._unshown, self._clock.monotonic()
        # A change can be in the list before the watch delivers it. A change is late only if the
        # watch has not delivered it by the next audit either.
        late = {
            uid: before[uid] for uid in there if uid in before and jobs.shown(uid) < before[uid][0]
        }
        new = {
            uid: (version_key(version), now)
            for uid, (_, version) in there.items()
            if uid not in late and jobs.shown(uid) < version_key(version)
        }
        self._unshown = late | new
        self.behind = min((since for _, since in late.values()), default=None)
        for path, version in (there[uid] for uid in late if jobs.lacks(uid, there[uid][1])):
            log.warning("the watch of dijobs missed resource version %s of %s", version, path)
            self._take(await self._api.get(path))
