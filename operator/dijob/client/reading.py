"""The read-only half of the client: jobs, pods, events, logs, and commands in containers."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from copy import copy
from types import TracebackType
from typing import Any, Self

from dijob import names
from dijob.client import logs, waiting
from dijob.client.connection import ClientConnection, ClientRequest, Json
from dijob.client.errors import NotFound
from dijob.client.executing import ContainerPlace, Executed, execute_command
from dijob.client.jobs import Job, Outcome
from dijob.client.kubeconfig import read_kubeconfig
from dijob.client.loglines import Line, LogOptions
from dijob.client.ranks import RankPod, ranks_of
from dijob.client.resources import DIJOBS, EVENTS, PODS

Jobs = list[Job]
Ranks = list[RankPod]
Events = list[Json]


def event_selector(job: str) -> str:
    """Return the field selector for a job's events."""
    return f"involvedObject.kind={names.KIND},involvedObject.name={job}"


def newest_last(job: Job, events: Iterable[Json]) -> Events:
    """Return the events of this job, oldest first.

    Events can outlive their object by an hour, so the uid is used to exclude events of an earlier
    job with the same name.
    """
    own = (one for one in events if one["involvedObject"].get("uid") == job.metadata.uid)
    return sorted(own, key=event_time)


def event_time(event: Mapping[str, Any]) -> str:
    """Return the time at which an event last occurred, in whole seconds.

    The program that wrote the event may have used the old fields or those of events.k8s.io.
    """
    times = (
        event.get("lastTimestamp"),
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("eventTime"),
        event.get("firstTimestamp"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )
    # Fractions of seconds are dropped, because the results are sorted as text: "00.5Z" would come
    # before "00Z".
    return next((f"{str(one)[:19]}Z" for one in times if one), "")


class Reader:
    """The open connection, and all read-only methods."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self._kubeconfig, self._context, self._namespace = kubeconfig, context, namespace
        self.connection: ClientConnection
        """The connection to the apiserver, for requests for which this class has no method."""

    async def __aenter__(self) -> Self:
        self.connection = ClientConnection(await read_kubeconfig(self._kubeconfig, self._context))
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
        """The namespace of the jobs: as given, else that of the kubeconfig, else `default`."""
        return self._namespace or self.connection.target.namespace

    def within(self, namespace: str) -> Self:
        """Return a client for another namespace, with the same connection."""
        other = copy(self)
        other._namespace = namespace
        return other

    async def get(self, name: str) -> Job:
        """Return a job. Raises NotFound."""
        try:
            return Job(await self.connection.json(ClientRequest("GET", self.path(name))))
        except NotFound as error:
            raise waiting.explain_not_found(error, self.namespace, name) from error

    async def list(self, *, everywhere: bool = False, selector: str = "") -> Jobs:
        """Return the jobs that match a label selector, in this namespace or in all of them."""
        query = (("labelSelector", selector),) if selector else ()
        path = DIJOBS.path("" if everywhere else self.namespace)
        found = await self.connection.json(ClientRequest("GET", path, query=query))
        # The items of a list have no kind, but `get -o yaml` must print one.
        kind = {"apiVersion": names.API_VERSION, "kind": names.KIND}
        return [Job(kind | item) for item in found["items"]]

    async def watch(self, name: str) -> AsyncGenerator[Job]:
        """Yield a job now and after each change, until it has finished or is deleted."""
        async with aclosing(waiting.watch_job(self.connection, self.namespace, name)) as states:
            async for job in states:
                if job is None:
                    return
                yield job
                if job.finished:
                    return

    async def wait(
        self,
        name: str,
        goal: waiting.Goal = waiting.FINISHED,
        timeout: float | None = None,
        seen: waiting.Seen | None = None,
    ) -> Outcome:
        """Wait until a job has finished, and return its outcome.

        With the goal `running`, the wait also ends when the job is running. Raises TimedOut after
        `timeout` seconds. `seen` is called with each state of the job.
        """
        changes = waiting.watch_job(self.connection, self.namespace, name)
        async with aclosing(changes):
            return await waiting.wait_for_outcome(changes, name, goal, timeout, seen)

    async def pods(self, job: str | Job) -> Ranks:
        """Return the pods of a job's ranks, in rank order. Raises NotFound."""
        known = job if isinstance(job, Job) else await self.get(job)
        query = (("labelSelector", f"{names.LABEL_JOB}={known.name}"),)
        path = PODS.path(self.namespace)
        found = await self.connection.json(ClientRequest("GET", path, query=query))
        return ranks_of(known, found["items"])

    async def events(self, name: str) -> Events:
        """Return the events about the job itself, oldest first."""
        query = (("fieldSelector", event_selector(name)),)
        found = await self.connection.json(
            ClientRequest("GET", EVENTS.path(self.namespace), query=query)
        )
        return newest_last(await self.get(name), found["items"])

    async def logs(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        ranks: Iterable[int] | None = None,
    ) -> AsyncGenerator[Line]:
        """Yield the log lines of all ranks, or of `ranks`, ordered by time.

        With `follow`, the lines continue until the job ends. `tail` is a number of lines per rank.
        `options` replaces all these arguments, and has additional settings.
        """
        only = None if ranks is None else frozenset(ranks)
        chosen = options or LogOptions(ranks=only, follow=follow, tail=tail)
        job = await self.get(name)
        if chosen.follow:
            lines = logs.Follower(self.connection, job, chosen).lines()
        else:
            pods = [pod for pod in await self.pods(job) if chosen.wants(pod.rank, pod.task)]
            lines = logs.merge_by_time(
                [logs.read_pod_log(self.connection, pod, chosen) for pod in pods]
            )
        async with aclosing(lines):
            async for line in lines:
                yield line

    async def exec(
        self, name: str, rank: int, command: Sequence[str], stdin: bytes | None = None
    ) -> Executed:
        """Run a command in a rank's main container, and return its output."""
        return await execute_command(self.connection, await self.place(name, rank), command, stdin)

    async def place(self, name: str, rank: int) -> ContainerPlace:
        """Return the main container of a rank. Raises NotFound if the rank has no pod."""
        pod = next((pod for pod in await self.pods(name) if pod.rank == rank), None)
        if pod is None:
            raise NotFound(404, "NotFound", f"rank {rank} of {name} currently has no pod")
        return ContainerPlace(self.namespace, pod.name, pod.container)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(namespace={self._namespace!r})"

    def path(self, name: str, below: str = "") -> str:
        """Return the path of a job in the API."""
        return DIJOBS.path_of(self.namespace, name, below)
