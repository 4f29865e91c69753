"""Merges the logs of a job's ranks into one stream, ordered by time.

A followed log survives container restarts, recreated pods and lost connections. Each pod has a
reader; a watch of the pods starts new readers, and a watch of the job stops them.
"""

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import Any, Final

import aiohttp

from dijob import names
from dijob.client.connection import ClientConnection, ClientRequest
from dijob.client.errors import ApiError, Unreachable
from dijob.client.jobs import Job
from dijob.client.loglines import Cursor, Line, LogOptions, split_timestamp
from dijob.client.ranks import RankPod, ranks_of
from dijob.client.resources import DIJOBS, PODS
from dijob.client.retrying import Retries
from dijob.client.watching import Objects, watch_objects

# How long a line is held back, so that earlier lines of other ranks can arrive and be printed
# first.
HOLD_SECONDS: Final = 0.3
# The shortest and the longest pause between attempts to read a log. The longest pause must be well
# below _END_SECONDS, so that the rest of a log is read when the job ends.
_PAUSE_SECONDS: Final = (0.5, 5.0)
# How long readers may take to read the rest of their logs after the job has finished. A pod on a
# lost node would otherwise block the command forever.
_END_SECONDS: Final = 15.0
# Limits the memory use if ranks print faster than the caller reads.
_HELD_LINES: Final = 10_000


@asynccontextmanager
async def open_log(
    connection: ClientConnection, pod: RankPod, options: LogOptions, since_time: str | None = None
) -> AsyncGenerator[AsyncGenerator[Line]]:
    """Open a pod's log, and provide its lines.

    There are no lines if the program has not started, or the pod is gone. The log is already
    open when the body of the `async with` statement starts, and `_drain` relies on this.
    """
    query = {"container": pod.container, "timestamps": "true"}
    query |= {"follow": "true"} if options.follow else {}
    query |= {"previous": "true"} if options.previous else {}
    if since_time:
        query["sinceTime"] = since_time
    elif options.since is not None:
        query["sinceSeconds"] = str(options.since)
    # A log that is opened again continues after the last line. --tail applies only when a log is
    # first opened.
    if options.tail is not None and not since_time:
        query["tailLines"] = str(options.tail)
    path = PODS.path_of(str(pod.meta["namespace"]), pod.name, "log")
    async with AsyncExitStack() as stack:
        response: aiohttp.ClientResponse | None = None
        try:
            call = ClientRequest("GET", path, query=tuple(query.items()))
            response = await stack.enter_async_context(connection.open(call))
        except ApiError as error:
            # 404: the pod is gone. 400: its container has not started.
            if error.status not in (400, 404):
                raise
        yield await stack.enter_async_context(aclosing(_parse_lines(response, pod)))


async def read_pod_log(
    connection: ClientConnection, pod: RankPod, options: LogOptions
) -> AsyncGenerator[Line]:
    """Yield the lines of one pod's log."""
    async with open_log(connection, pod, options) as lines:
        async for line in lines:
            yield line


async def _parse_lines(
    response: aiohttp.ClientResponse | None, pod: RankPod
) -> AsyncGenerator[Line]:
    if response is None:
        return
    async with aclosing(_split_lines(response)) as lines:
        async for raw in lines:
            time, text = split_timestamp(raw.decode(errors="replace"))
            yield Line(time, pod.rank, pod.name, text)


async def _split_lines(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
    """Yield the lines of a response. A line can have any length."""
    # aiohttp's own iterator raises an error if a line exceeds its buffer.
    left = b""
    try:
        async for piece in response.content.iter_any():
            *whole, left = (left + piece).split(b"\n")
            for line in whole:
                yield line
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(f"lost the connection while reading a log: {error}") from error
    if left:
        yield left


async def merge_by_time(streams: list[AsyncGenerator[Line]]) -> AsyncGenerator[Line]:
    """Yield the lines of several complete logs, ordered by time."""
    try:
        async with aclosing(_in_order(streams)) as lines:
            async for line in lines:
                yield line
    finally:
        for stream in streams:
            await stream.aclose()


async def _in_order(streams: list[AsyncGenerator[Line]]) -> AsyncGenerator[Line]:
    # The logs are requested concurrently. After an error, the caller closes the generators, but a
    # generator cannot be closed while it is running. So the error is raised only when no request is
    # running.
    heads = await asyncio.gather(
        *(_next_line(stream) for stream in streams), return_exceptions=True
    )
    for head in heads:
        if isinstance(head, BaseException):
            raise head
    heap = [(line, at, line) for at, line in enumerate(heads) if isinstance(line, Line)]
    heapq.heapify(heap)
    while heap:
        key, at, line = heap[0]
        yield line
        following = await _next_line(streams[at])
        if following is None:
            heapq.heappop(heap)
        else:
            # Lines of one rank keep their order, even if the clock of its node was set back.
            heapq.heapreplace(heap, (max(key, following), at, following))


async def _next_line(stream: AsyncGenerator[Line]) -> Line | None:
    return await anext(stream, None)


class Follower:
    """Follows the logs of a job's ranks until the job has finished or is deleted."""

    def __init__(self, connection: ClientConnection, job: Job, options: LogOptions) -> None:
        self._connection, self._job, self._options = connection, job, options
        self._pods: dict[str, RankPod] = {}
        self._readers: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()
        self._over = False
        self._listed = asyncio.Event()
        self._lines: asyncio.Queue[Line] = asyncio.Queue(_HELD_LINES)
        self._refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Holds the error of the first reader that failed permanently."""

    async def lines(self) -> AsyncGenerator[Line]:
        """Yield lines as they arrive. Raises the API error if a watch or a log is rejected."""
        work = asyncio.ensure_future(self._work())
        held: list[tuple[Line, int, float]] = []
        loop, number = asyncio.get_running_loop(), 0
        try:
            while not (work.done() and self._lines.empty() and not held):
                with suppress(TimeoutError):
                    # wait_for is not used. Before Python 3.12, it ignores a cancellation if a line
                    # has arrived. The caller would then wait forever for the end of this generator.
                    async with asyncio.timeout(HOLD_SECONDS / 3):
                        line = await self._lines.get()
                    number += 1
                    heapq.heappush(held, (line, number, loop.time() + HOLD_SECONDS))
                while held and (held[0][2] <= loop.time() or len(held) > _HELD_LINES):
                    yield heapq.heappop(held)[0]
            await work
        finally:
            await _cancel_tasks(work, *self._readers.values())

    async def _work(self) -> None:
        """Watch the job and its pods, with a reader for each pod, until all lines are read."""
        pods = asyncio.ensure_future(self._watch_pods())
        # A job that has already finished still has logs to read, so the end of the job is
        # considered only after its pods have been listed.
        job = asyncio.gather(self._until_over(), self._listed.wait())
        try:
            await asyncio.wait((pods, job, self._refused), return_when=asyncio.FIRST_COMPLETED)
            for ended in (self._refused, pods):
                if ended.done():
                    await ended
            await job
            async with self._changed:
                self._over = True
                self._changed.notify_all()
            if self._readers:
                await asyncio.wait(self._readers.values(), timeout=_END_SECONDS)
            if self._refused.done():
                await self._refused
        finally:
            await _cancel_tasks(pods, job, self._refused)

    async def _until_over(self) -> None:
        path, name = DIJOBS.path(self._job.metadata.namespace), self._job.name
        async with aclosing(
            watch_objects(self._connection, path, fieldSelector=f"metadata.name={name}")
        ) as states:
            async for found in states:
                if name not in found:
                    return
                self._job = Job(found[name])
                if self._job.finished:
                    return

    async def _watch_pods(self) -> None:
        path, name = PODS.path(self._job.metadata.namespace), self._job.name
        async with aclosing(
            watch_objects(self._connection, path, labelSelector=f"{names.LABEL_JOB}={name}")
        ) as states:
            async for found in states:
                await self._take(found)

    async def _take(self, found: Objects) -> None:
        async with self._changed:
            self._pods = {
                pod.uid: pod
                for pod in ranks_of(self._job, found.values())
                if self._options.wants(pod.rank, pod.task)
            }
            # A reader stops on its own when its pod is gone.
            for uid in self._pods.keys() - self._readers.keys():
                self._readers[uid] = asyncio.ensure_future(self._read(uid))
            self._listed.set()
            self._changed.notify_all()

    async def _read(self, uid: str) -> None:
        """Read everything that one pod prints, across container restarts."""
        cursor, seen = Cursor(), -1
        retries = Retries(f"reading the log of {self._pods[uid].name}", bounds=_PAUSE_SECONDS)
        while (pod := await self._started(uid, seen)) is not None:
            why = "the log ended although its container is still running"
            before, last_run = cursor.last, seen
            try:
                await self._drain(pod, cursor, again=seen >= 0)
                seen = pod.restarts
            except Unreachable as error:
                # The next attempt continues after the last line, if the container is still running.
                seen, why = pod.restarts, str(error)
            except ApiError as error:
                if error.status < 500:
                    self._refuse(error)
                    return
                # The kubelet does not respond. `seen` is unchanged, so the complete log is read
                # later.
                why = str(error)
            if cursor.last > before or pod.restarts > last_run:
                retries.succeeded()
            await retries.pause(why)

    def _refuse(self, error: ApiError) -> None:
        if not self._refused.done():
            self._refused.set_exception(error)

    async def _drain(self, pod: RankPod, cursor: Cursor, again: bool) -> None:
        """Read the log of the current run to its end.

        With `again`, the rest of the previous run's log is read first.

        The client learns too late whether a reopened log belongs to a new run: the pod's status
        arrives after the log. So the previous log is requested too, once the current one is open.
        The cursor drops lines that are in both logs.
        """
        since = cursor.since
        async with open_log(self._connection, pod, self._options, since) as lines:
            if again:
                await self._before(pod, cursor)
            await self._put(lines, cursor)

    async def _before(self, pod: RankPod, cursor: Cursor) -> None:
        previous = LogOptions(previous=True)
        async with open_log(self._connection, pod, previous, cursor.since) as lines:
            await self._put(lines, cursor)

    async def _put(self, lines: AsyncGenerator[Line], cursor: Cursor) -> None:
        cursor.reopen()
        async for line in lines:
            if cursor.is_new(line.time, line.text):
                await self._lines.put(line)

    async def _started(self, uid: str, seen: int) -> RankPod | None:
        """Wait until the pod has an unread log. Return None if it will never have one."""
        async with self._changed:
            while (pod := self._pods.get(uid)) is not None:
                if pod.started and (pod.restarts > seen or pod.running):
                    return pod
                if self._over:
                    return None
                await self._changed.wait()
        return None


async def _cancel_tasks(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
