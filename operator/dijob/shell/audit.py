"""Compares, once a minute, the DIJobs of the apiserver with those known: a watch may fail
unseen.
"""

import asyncio
import logging

from dijob.shell.api import Api, ApiError, Json
from dijob.shell.clock import SYSTEM, Clock
from dijob.shell.jobs import WentBackError, order
from dijob.shell.kinds import JOBS
from dijob.shell.reconcile import Reconciler
from dijob.shell.workqueue import WorkQueue

log = logging.getLogger(__name__)

PERIOD_SECONDS = 60.0
LIST_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class Audit:
    """Finds deletions that kopf's watch has missed, and a watch that shows nothing any more.

    `behind` is since when (monotonic seconds) the watch has not shown what the list has; None: it
    shows all. That other calls have answered the same says nothing of the watch.
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
        # What the watch has not shown at the last look: the version by the job's uid, since when.
        self._unshown: dict[str, tuple[int, float]] = {}
        self.behind: float | None = None

    async def run(self) -> None:
        """Look every minute (with jitter) until cancelled, or until the store has gone back
        (WentBackError).
        """
        while True:
            await asyncio.sleep(self._clock.spread(PERIOD_SECONDS, 0.1))
            try:
                await self._compare()
            except ApiError as error:
                log.warning("failed to list dijobs, the audit is postponed: %s", error)

    async def catch_up(self) -> None:
        """Take in what the watch of DIJobs has not shown, as another operator has gone: the watch
        may have died in silence.
        """
        try:
            there = await self._read()
            for uid, (path, version) in there.items():
                if self._reconciler.jobs.lacks(uid, version):
                    self._take(await self._api.get(path))
        except ApiError as error:
            log.warning("failed to list dijobs, the next audit finds missed changes: %s", error)

    def _take(self, body: Json) -> None:
        if key := self._reconciler.jobs.put(body):
            self._queue.add(key, background=True)

    async def _read(self) -> dict[str, tuple[str, str]]:
        """Path and version of each job that there is, by uid; what is not there is forgotten."""
        versions = self._reconciler.jobs.versions()
        known, there = set(self._reconciler.jobs.uids()), dict[str, tuple[str, str]]()
        for path in self._paths:
            listed = await self._api.get(path, accept=LIST_METADATA)
            for item in listed.get("items") or ():
                meta = item["metadata"]
                at = JOBS.path(meta["namespace"], meta["name"])
                there[meta["uid"]] = at, meta["resourceVersion"]
                if order(meta["resourceVersion"]) < (least := versions.get(meta["uid"], 0)):
                    what = f"{meta['namespace']}/{meta['name']}"
                    raise WentBackError(what, meta["resourceVersion"], least)
        for uid in known - set(there):
            self._reconciler.forget(uid)
        return there

    async def _compare(self) -> None:
        there, jobs = await self._read(), self._reconciler.jobs
        before, now = self._unshown, self._clock.monotonic()
        # New since the last look and not shown yet is ordinary; not shown by the next one is not.
        late = {
            uid: before[uid] for uid in there if uid in before and jobs.shown(uid) < before[uid][0]
        }
        new = {
            uid: (order(version), now)
            for uid, (_, version) in there.items()
            if uid not in late and jobs.shown(uid) < order(version)
        }
        self._unshown = late | new
        self.behind = min((since for _, since in late.values()), default=None)
        for path, version in (there[uid] for uid in late if jobs.lacks(uid, there[uid][1])):
            log.warning("the watch of dijobs missed resource version %s of %s", version, path)
            self._take(await self._api.get(path))
