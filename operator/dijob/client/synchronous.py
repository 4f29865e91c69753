"""The client for scripts and notebooks: `AsyncClient` in a thread with its own event loop.

Using `asyncio.run` for each call would fail in a notebook, because a notebook already runs a loop.
It would also open a new connection each time (docs/decisions/032).
"""

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from types import TracebackType
from typing import Any, Final, TypeVar, Unpack, overload

from dijob.api.model import DIJob
from dijob.client import waiting
from dijob.client.asynchronous import AsyncClient, Manifest
from dijob.client.executing import Executed
from dijob.client.functions import CodeSource
from dijob.client.jobs import Job, Outcome
from dijob.client.loglines import Line, LogOptions
from dijob.client.reading import Events, Jobs, Ranks
from dijob.client.running import RunOptions, show_options

Json = dict[str, Any]
Answer = TypeVar("Answer")
_END: Any = object()
# How often a waiting call returns to Python. Python handles Ctrl-C only between two waits.
_SIGNAL_SECONDS: Final = 1.0


Documented = TypeVar("Documented", bound=type)
_AS: Final = "See AsyncClient."


def document_methods(client: Documented) -> Documented:
    """Copy the docstrings of AsyncClient's methods, for help() and notebooks."""
    for name, method in vars(client).items():
        own = getattr(method, "__doc__", None) or ""
        if callable(method) and own.startswith(_AS):
            _, _, more = own.partition("; ")
            full = inspect.getdoc(getattr(AsyncClient, name)) or ""
            method.__doc__ = f"{full}\n\n{more}".strip()
    return client


@document_methods
class Client:
    """Manages the DIJobs of one cluster with your permissions. Use it with `with`, or call `close`.

    For example::

        with Client() as client:
            client.run("pi", image="my/image", command=["python3", "main.py"], code=".", replicas=3)
            for line in client.logs("pi", follow=True):
                print(line.rank, line.text)
            print(client.wait("pi"))

    All methods raise errors of `dijob.client`: ApiError (NotFound, Refused), Unreachable, TimedOut,
    BadFile and BadValue. AsyncClient has the same methods for programs with an event loop.
    """

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
    ) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread, so that a program that forgets to call `close` can still exit.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = AsyncClient(kubeconfig, context, namespace)
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The client cannot be used afterwards."""
        if not self._loop.is_closed():
            try:
                self._run(self._client.__aexit__(None, None, None))
            finally:
                self._stop()

    @property
    def namespace(self) -> str:
        """The namespace of the jobs."""
        return self._client.namespace

    def __repr__(self) -> str:
        return f"Client(namespace={self.namespace!r})"

    @show_options
    def run(
        self,
        name: str,
        *,
        image: str,
        command: Sequence[str] = (),
        code: CodeSource | None = None,
        replace: bool = False,
        **options: Unpack[RunOptions],
    ) -> Job:
        """See AsyncClient.run."""
        call = self._client.run(
            name, image=image, command=command, code=code, replace=replace, **options
        )
        return self._run(call)

    @overload
    def apply(self, what: DIJob, *, dry_run: bool = False, force: bool = False) -> Job: ...

    @overload
    def apply(
        self, what: Mapping[str, Any], *, dry_run: bool = False, force: bool = False
    ) -> Job | Json: ...

    def apply(self, what: Manifest, *, dry_run: bool = False, force: bool = False) -> Job | Json:
        """See AsyncClient.apply."""
        return self._run(self._client.apply(what, dry_run=dry_run, force=force))

    def apply_owned(self, body: Json, job: Job | Mapping[str, Any]) -> Json:
        """See AsyncClient.apply_owned."""
        return self._run(self._client.apply_owned(body, job))

    def get(self, name: str) -> Job:
        """See AsyncClient.get."""
        return self._run(self._client.get(name))

    def list(self, *, everywhere: bool = False, selector: str = "") -> Jobs:
        """See AsyncClient.list."""
        return self._run(self._client.list(everywhere=everywhere, selector=selector))

    def watch(self, name: str) -> Iterator[Job]:
        """See AsyncClient.watch."""
        return self._each(self._client.watch(name))

    def wait(
        self,
        name: str,
        goal: waiting.Goal = waiting.FINISHED,
        timeout: float | None = None,
        seen: waiting.Seen | None = None,
    ) -> Outcome:
        """See AsyncClient.wait; `seen` is called in the client's own thread."""
        return self._run(self._client.wait(name, goal, timeout, seen))

    def scale(self, name: str, replicas: int) -> Job:
        """See AsyncClient.scale."""
        return self._run(self._client.scale(name, replicas))

    def suspend(self, name: str) -> Job:
        """See AsyncClient.suspend."""
        return self._run(self._client.suspend(name))

    def resume(self, name: str) -> Job:
        """See AsyncClient.resume."""
        return self._run(self._client.resume(name))

    def restart(
        self,
        name: str,
        what: Manifest | None = None,
        *,
        beside: Iterable[Json] = (),
        timeout: float = 300,
    ) -> Job:
        """See AsyncClient.restart."""
        return self._run(self._client.restart(name, what, beside=beside, timeout=timeout))

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        """See AsyncClient.delete."""
        self._run(self._client.delete(name, timeout=timeout))

    def pods(self, job: str | Job) -> Ranks:
        """See AsyncClient.pods."""
        return self._run(self._client.pods(job))

    def events(self, name: str) -> Events:
        """See AsyncClient.events."""
        return self._run(self._client.events(name))

    def logs(
        self,
        name: str,
        options: LogOptions | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        ranks: Iterable[int] | None = None,
    ) -> Iterator[Line]:
        """See AsyncClient.logs."""
        lines = self._client.logs(name, options, follow=follow, tail=tail, ranks=ranks)
        return self._each(lines)

    def exec(
        self, name: str, rank: int, command: Sequence[str], stdin: bytes | None = None
    ) -> Executed:
        """See AsyncClient.exec."""
        return self._run(self._client.exec(name, rank, command, stdin))

    def _run(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            # A signal that arrives just before a wait does not interrupt the wait. Short waits make
            # sure that Ctrl-C is handled.
            while not wait((future,), _SIGNAL_SECONDS).done:
                pass
            return future.result()
        except BaseException:
            # Ctrl-C is raised only in this thread. The coroutine runs in the client's thread, and
            # would continue there if it were not canceled.
            future.cancel()
            raise

    def _each(self, items: AsyncIterator[Answer]) -> Iterator[Answer]:
        # The task of the current step, which `_close_generator` has to cancel after Ctrl-C.
        step: list[asyncio.Task[Any]] = []

        async def following() -> Answer:
            step[:] = filter(None, [asyncio.current_task()])
            return await anext(items, _END)

        try:
            while (item := self._run(following())) is not _END:
                yield item
        finally:
            self._run(_close_generator(items, step))

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _close_generator(items: AsyncIterator[Any], step: Sequence[asyncio.Task[Any]]) -> None:
    """Close a generator after its last step has been canceled.

    After Ctrl-C the step may still be running, and a running generator cannot be closed.
    """
    for task in step:
        task.cancel()
    await asyncio.gather(*step, return_exceptions=True)
    if close := getattr(items, "aclose", None):
        await close()
