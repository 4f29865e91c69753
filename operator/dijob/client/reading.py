"""What can be read of jobs and their ranks: half of the client."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from types import TracebackType
from typing import Any, Self

from dijob import names
from dijob.client import logs, waiting
from dijob.client.connection import Call, Connection, Json
from dijob.client.errors import NotFound
from dijob.client.executing import Executed, Place, execute
from dijob.client.jobs import Job, Outcome
from dijob.client.kubeconfig import target
from dijob.client.loglines import Line, LogOptions
from dijob.client.ranks import RankPod, ranks_of
from dijob.client.resources import DIJOBS, EVENTS, PODS

Jobs = list[Job]
Ranks = list[RankPod]
Events = list[Json]


def about(job: str) -> str:
    """The field selector of a job's events."""
    return f"involvedObject.kind={names.KIND},involvedObject.name={job}"


def newest_last(job: Job, events: Iterable[Json]) -> Events:
    """The events of this very job, not of an earlier one of its name."""
    own = (one for one in events if one["involvedObject"].get("uid") == job.metadata.uid)
    return sorted(own, key=event_time)


def event_time(event: Mapping[str, Any]) -> str:
    """When an event was seen last. Its author may have used the newer fields (events.k8s.io)."""
    times = (
        event.get("lastTimestamp"),
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    # Microseconds would sort before the whole second.
    return next((f"{str(one)[:19]}Z" for one in times if one), "")


class Reader:
    """The open connection, and all that changes nothing."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self._kubeconfig, self._context, self._namespace = kubeconfig, context, namespace
        self.connection: Connection
        """For calls that this class does not have."""

    async def __aenter__(self) -> Self:
        self.connection = Connection(await target(self._kubeconfig, self._context))
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)

    @property
    def namespace(self) -> str:
        """Where jobs are looked for: as given, else the kubeconfig's, else default."""
        return self._namespace or self.connection.target.namespace

    def within(self, namespace: str) -> Self:
        """The same open connection, for the jobs of another namespace."""
        other = copy(self)
        other._namespace = namespace
        return other

    async def get(self, name: str) -> Job:
        """A job. Raises NotFound."""
        try:
            return Job(await self.connection.json(Call("GET", self.path(name))))
        except NotFound as error:
            raise waiting.about(error, self.namespace, name) from error

    async def list(self, *, everywhere: bool = False, selector: str = "") -> Jobs:
        """The jobs of the namespace, or of all, that a label selector finds."""
        query = (("labelSelector", selector),) if selector else ()
        path = DIJOBS.path("" if everywhere else self.namespace)
        found = await self.connection.json(Call("GET", path, query=query))
        kind = {"apiVersion": names.API_VERSION, "kind": names.KIND}
        return [Job(kind | item) for item in found["items"]]

    async def watch(self, name: str) -> AsyncGenerator[Job]:
        """A job now and after each change, until it has ended or is deleted."""
        async with aclosing(waiting.states(self.connection, self.namespace, name)) as states:
            async for job in states:
                if job is None:
                    return
                yield job
                if job.finished:
                    return

    async def wait(
        self,
        name: str,
        goal: str = waiting.FINISHED,
        timeout: float | None = None,
        seen: waiting.Seen | None = None,
    ) -> Outcome:
        """Wait until a job has ended (`finished`, `succeeded`), or runs (`running`) or has ended.

        `timeout` in seconds, then TimedOut; `seen` is called with each state of the job.
        """
        changes = waiting.states(self.connection, self.namespace, name)
        async with aclosing(changes):
            return await waiting.until(changes, name, goal, timeout, seen)

    async def pods(self, job: str | Job) -> Ranks:
        """The pods of a job's ranks, in rank order. Raises NotFound if there is no such job."""
        known = job if isinstance(job, Job) else await self.get(job)
        query = (("labelSelector", f"{names.LABEL_JOB}={known.name}"),)
        path = PODS.path(self.namespace)
        found = await self.connection.json(Call("GET", path, query=query))
        return ranks_of(known, found["items"])

    async def events(self, name: str) -> Events:
        """The events about the job itself, as the apiserver has them, the newest last."""
        query = (("fieldSelector", about(name)),)
        found = await self.connection.json(Call("GET", EVENTS.path(self.namespace), query=query))
        return newest_last(await self.get(name), found["items"])

    async def logs(self, name: str, options: LogOptions | None = None) -> AsyncGenerator[Line]:
        """The lines of all ranks, or of those that `options` name, in the order of time."""
        chosen = options or LogOptions()
        job = await self.get(name)
        if chosen.follow:
            lines = logs.Follower(self.connection, job, chosen).lines()
        else:
            pods = [pod for pod in await self.pods(job) if chosen.wants(pod.rank, pod.task)]
            lines = logs.merged([logs.read(self.connection, pod, chosen) for pod in pods])
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def exec(
        self, name: str, rank: int, command: Sequence[str], stdin: bytes | None = None
    ) -> Executed:
        """Run a command in a rank's main container, to its end."""
        return await execute(self.connection, await self.place(name, rank), command, stdin)

    async def place(self, name: str, rank: int) -> Place:
        """The main container of a rank. Raises NotFound where it has no pod."""
        pod = next((pod for pod in await self.pods(name) if pod.rank == rank), None)
        if pod is None:
            raise NotFound(404, "NotFound", f"rank {rank} of {name} has no pod now")
        return Place(self.namespace, pod.name, pod.container)

    def path(self, name: str, below: str = "") -> str:
        """The path of a job in the API."""
        return DIJOBS.path_of(self.namespace, name, below)
