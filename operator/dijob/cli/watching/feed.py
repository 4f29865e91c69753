"""Merges the watches of a job, its pods and its events into a stream of snapshots.

The three watches are independent. If one is interrupted or forbidden, the others remain useful, and
the snapshot says what is missing.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from http import HTTPStatus

from dijob import names
from dijob.cli.watching.view import Snapshot
from dijob.client import AsyncClient, Job, Refused
from dijob.client.ranks import ranks_of
from dijob.client.reading import event_selector, newest_last
from dijob.client.resources import EVENTS, PODS
from dijob.client.retrying import Report
from dijob.client.waiting import watch_job
from dijob.client.watching import Objects, watch_objects

# One change to a job causes several watch events within milliseconds. This pause merges them, so
# that the view is drawn only once.
_MERGE_SECONDS = 0.1


class Feed:
    """The current state of a job, kept up to date by three watches.

    The feed ends when the job ends; with `lasting`, only when the job is deleted.
    """

    def __init__(self, client: AsyncClient, name: str, *, lasting: bool = False) -> None:
        self._client, self._name, self._lasting = client, name, lasting
        self._job: Job | None = None
        self._pods: Objects = {}
        self._events: Objects = {}
        self._unseen: list[str] = []
        self._troubles: dict[str, str] = {}
        self._changed = asyncio.Event()

    async def snapshots(self, beat: float | None = None) -> AsyncGenerator[Snapshot]:
        """Yield the state after each change and, if `beat` is given, every `beat` seconds.

        The last snapshot contains the ended job. No snapshot follows a deletion. Raises NotFound if
        the job does not exist.
        """
        work = [
            asyncio.ensure_future(one())
            for one in (self._watch_job, self._watch_pods, self._watch_events)
        ]
        try:
            while not (work[0].done() and not self._changed.is_set()):
                going = [one for one in work if not one.done()]
                changed = asyncio.ensure_future(self._changed.wait())
                try:
                    await asyncio.wait(
                        (*going, changed), timeout=beat, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    changed.cancel()
                # A watch that has ended may have failed. Its error is raised here.
                for one in work:
                    if one.done():
                        one.result()
                await asyncio.sleep(_MERGE_SECONDS)
                self._changed.clear()
                if self._job is not None:
                    yield self._snapshot(self._job)
            # If the job's watch failed after the check above, its error is raised here.
            work[0].result()
        finally:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    def _snapshot(self, job: Job) -> Snapshot:
        events = newest_last(job, self._events.values())
        troubles = tuple(self._troubles.values())
        return Snapshot(
            job,
            ranks_of(job, self._pods.values()),
            events,
            unseen=tuple(self._unseen),
            troubles=troubles,
        )

    def _reporter(self, about: str) -> Report:
        """Return a callback that records the connection problem of one watch ("" for none)."""

        def report(sentence: str) -> None:
            # The problem is removed and added again, so that the newest problem is shown last.
            self._troubles.pop(about, None)
            self._troubles |= {about: sentence} if sentence else {}
            self._changed.set()

        return report

    async def _watch_job(self) -> None:
        """Follow the job until it ends or is deleted."""
        report = self._reporter("job")
        changes = watch_job(self._client.connection, self._client.namespace, self._name, report)
        async with aclosing(changes):
            async for job in changes:
                self._job = job
                self._changed.set()
                if job is None or (job.finished and not self._lasting):
                    return

    async def _watch_pods(self) -> None:
        async def take(found: Objects) -> None:
            self._pods = found

        label = f"{names.LABEL_JOB}={self._name}"
        await self._watch_objects(PODS.path(self._client.namespace), take, labelSelector=label)

    async def _watch_events(self) -> None:
        async def take(found: Objects) -> None:
            self._events = found

        path = EVENTS.path(self._client.namespace)
        await self._watch_objects(path, take, fieldSelector=event_selector(self._name))

    async def _watch_objects(
        self, path: str, take: Callable[[Objects], Awaitable[None]], **selectors: str
    ) -> None:
        try:
            objects = watch_objects(
                self._client.connection, path, report=self._reporter(path), **selectors
            )
            async with aclosing(objects) as changes:
                async for found in changes:
                    await take(found)
                    self._changed.set()
        except Refused as error:
            # If a permission is missing, the rest of the view is still useful.
            if error.status != HTTPStatus.FORBIDDEN:
                raise
            # A user who may read the job, but not its pods or events, still sees the job.
            self._unseen.append(str(error))
            self._changed.set()
