"""Distributes the state of the cluster to all tabs of the page.

It uses one watch for the list of jobs. For each open job, it also uses the feed of `kubectl dijob
watch`. The hub also remembers what it has seen, because a status has only the last progress and the
last loss. In a cluster, each user has separate hubs (cluster/sessions.py).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from dijob.cli.watching.feed import Feed
from dijob.client import AsyncClient, DijobError, Job, NotFound, Refused
from dijob.client.connection import ClientRequest
from dijob.client.errors import ApiError
from dijob.client.resources import DIJOBS
from dijob.client.watching import watch_objects

from dijob_extras.ui.manifest import spec_page
from dijob_extras.ui.memory import Ends, JobMemories, PageMemory
from dijob_extras.ui.past import list_past, show_past
from dijob_extras.ui.sse import Message, Messages
from dijob_extras.ui.tail import read_log, tail_log
from dijob_extras.ui.totals import sum_by_namespace
from dijob_extras.ui.usage import Usage, poll_usage
from dijob_extras.ui.view import Seen, job_page, job_row

_AGAIN_SECONDS: Final = 2.0
# How often the apiserver's version is requested. A watch can be silent for minutes, so it does not
# show whether the apiserver responds.
_PULSE_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 4.0
# The longest time between two updates. Each update also contains new problems.
_BEAT_SECONDS: Final = 1.0
# The shortest time between two updates of a page. A starting job changes many times per second.
_PACE_SECONDS: Final = 0.2
# The totals also change as time passes, not only when a job changes.
_TOTALS_SECONDS: Final = 5.0
# No cluster has this many jobs. Independently of this limit, the command forgets deleted jobs.
_MOST_JOBS: Final = 100_000


class Hub:
    """The jobs of one or all namespaces, and what the page has seen of them."""

    def __init__(
        self,
        client: AsyncClient,
        everywhere: bool = False,
        measure: bool = False,
        *,
        cluster: str = "",
        shared: tuple[JobMemories, str] | None = None,
    ) -> None:
        """`cluster` is the name of the cluster; without a name, the page shows the cluster's
        address.

        `shared` is a pair: a JobMemories that outlives this hub, and the prefix of this hub's keys
        in it. A job is in this JobMemories only after its page was opened, not if it is only in
        the list.
        """
        self.client, self.everywhere, self.measure = client, everywhere, measure
        self._cluster, self._shared = cluster, shared
        self._memories, self._prefix = shared or (JobMemories(_MOST_JOBS), "")
        self._jobs: dict[str, Job] = {}
        self._changed = asyncio.Condition()
        self._listed = False
        self._troubles: dict[str, str] = {}

    async def run(self) -> None:
        """Follow the cluster until the task is canceled."""
        work = [asyncio.ensure_future(one) for one in (self._watch(), self._pulse())]
        try:
            await asyncio.gather(*work)
        finally:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    async def _watch(self) -> None:
        path = DIJOBS.path("" if self.everywhere else self.client.namespace)
        while True:
            try:
                objects = watch_objects(self.client.connection, path, report=self._note_watch)
                async with aclosing(objects) as changes:
                    async for found in changes:
                        await self._take(found)
            except DijobError as error:
                if isinstance(error, Refused) and error.status == HTTPStatus.FORBIDDEN:
                    # The permission was revoked, so the jobs must no longer be shown.
                    self._jobs = {}
                self._note_watch(str(error))
                await self._tell()
            await asyncio.sleep(_AGAIN_SECONDS)

    def _note_watch(self, trouble: str) -> None:
        # Do not wake the pages: they receive this problem with their next update.
        self._troubles["watch"] = trouble

    async def _take(self, found: Mapping[str, Mapping[str, Any]]) -> None:
        before, now = self._jobs, datetime.now(UTC)
        self._jobs = {}
        for key, body in found.items():
            known = before.get(key)
            # `watch_objects` returns the same object if the object is unchanged, so the parsed job
            # is reused.
            self._jobs[key] = known if known and known.body is body else Job(body)
            if self._jobs[key] is not known and not self._shared:
                self.memory(self._jobs[key]).see(self._jobs[key], now)
        if not self._shared:
            self._memories.keep({job.metadata.uid for job in self._jobs.values()})
        self._listed = True
        self._note_watch("")
        await self._tell()

    async def _pulse(self) -> None:
        while True:
            problem = await self._problem()
            if problem != self._troubles.get("answer", ""):
                self._troubles["answer"] = problem
                await self._tell()
            await asyncio.sleep(_PULSE_SECONDS)

    async def _problem(self) -> str:
        """Return the problem with the apiserver, or ""."""
        connection = self.client.connection
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await connection.json(ClientRequest("GET", "/version"))
        except TimeoutError:
            return f"the cluster at {connection.target.settings.host} does not respond"
        except ApiError as error:
            # 401 means expired credentials, and 500 or more means an apiserver error. Any other
            # rejection shows that the apiserver works.
            return str(error) if error.status == 401 or error.status >= 500 else ""
        except DijobError as error:
            return str(error)
        return ""

    @property
    def trouble(self) -> str:
        """The reason why the data may be old, or ""."""
        return self._troubles.get("answer") or self._troubles.get("watch") or ""

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def memory(self, job: Job) -> PageMemory:
        """Return what the page has seen of a job."""
        return self._memories.find(f"{self._prefix}{job.metadata.uid}", datetime.now(UTC))

    @property
    def scope(self) -> str:
        """The namespaces of the jobs, for the page."""
        return "all namespaces" if self.everywhere else f"namespace {self.client.namespace}"

    def _about(self) -> Message:
        cluster = self._cluster or self.client.connection.target.settings.host
        about = {"scope": self.scope, "cluster": cluster, "everywhere": self.everywhere}
        return Message("about", about)

    async def jobs(self) -> Messages:
        """Yield the list of jobs after each change."""
        yield self._about()
        shown: dict[str, Job] | None = None
        while True:
            yield Message("trouble", {"sentence": self.trouble})
            # With 1,000 jobs and many tabs, it would be slow to rebuild unchanged rows each second.
            if self._listed and shown is not self._jobs:
                shown = self._jobs
                rows = [job_row(job) for _, job in sorted(shown.items())]
                yield Message("jobs", {"scope": self.scope, "jobs": rows})
            await asyncio.sleep(_PACE_SECONDS)
            await self._next()

    async def totals(self) -> Messages:
        """Yield the GPU hours and the goodput of each namespace, every few seconds."""
        yield self._about()
        while True:
            yield Message("trouble", {"sentence": self.trouble})
            if self._listed:
                now = datetime.now(UTC)
                yield Message("totals", sum_by_namespace(self._jobs.values(), now))
            await asyncio.sleep(_TOTALS_SECONDS if self._listed else _PACE_SECONDS)

    async def _next(self) -> None:
        """Wait until something changes, at most _BEAT_SECONDS."""
        try:
            async with asyncio.timeout(_BEAT_SECONDS), self._changed:
                await self._changed.wait()
        except TimeoutError:
            return

    async def job(self, namespace: str, name: str) -> Messages:
        """Yield a job after each change to the job, its pods or its events.

        The stream continues if the job is deleted and created again.
        """
        client = self.client.within(namespace)
        yield self._about()
        while True:
            last = Message("gone", {"sentence": f"{name} in namespace {namespace} was deleted"})
            try:
                async with aclosing(self._states(client, name)) as states:
                    async for state in states:
                        yield Message("trouble", {"sentence": self.trouble})
                        for message in state:
                            yield message
            except NotFound as error:
                last = Message("gone", {"sentence": str(error)})
            except DijobError as error:
                last = Message("trouble", {"sentence": self.trouble or str(error)})
            yield last
            # The job may be created again, or the apiserver may come back.
            await asyncio.sleep(_AGAIN_SECONDS)

    def log(self, namespace: str, name: str, rank: int | None) -> Messages:
        """Yield the log of a rank, or of all ranks (None), until the job has finished."""
        return tail_log(self.client.within(namespace), name, rank)

    def past(self) -> Messages:
        """Yield the jobs of the history."""
        return list_past(self.client, self.everywhere)

    def record(self, namespace: str, name: str, uid: str) -> Messages:
        """Yield one job of the history."""
        return show_past(self.client.within(namespace), name, uid)

    def text(self, namespace: str, name: str, rank: int | None) -> AsyncGenerator[str]:
        """Yield the complete log of a rank, or of all ranks (None), as it is now."""
        return read_log(self.client.within(namespace), name, rank)

    async def _states(self, client: AsyncClient, name: str) -> AsyncGenerator[list[Message]]:
        usage: Usage = {}
        work = asyncio.ensure_future(poll_usage(client, name, usage, self.measure))
        try:
            async with aclosing(self._pages(client, name, usage)) as pages:
                async for page in pages:
                    yield page
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _pages(
        self, client: AsyncClient, name: str, usage: Usage
    ) -> AsyncGenerator[list[Message]]:
        ends, loop = Ends(), asyncio.get_running_loop()
        feed, shown = Feed(client, name, lasting=True), None
        async with aclosing(feed.snapshots(_BEAT_SECONDS)) as snapshots:
            async for now in snapshots:
                memory = self.memory(now.job)
                time = datetime.now(UTC)
                memory.see(now.job, time)
                fell = ends.see(now.pods, loop.time())
                # The spec comes first, so that the page is complete when it opens.
                spec = [Message("spec", spec_page(now.job))] if now.job is not shown else []
                shown = now.job
                yield [*spec, Message("job", job_page(Seen(now, memory, time, fell, usage)))]
                await asyncio.sleep(_PACE_SECONDS)
