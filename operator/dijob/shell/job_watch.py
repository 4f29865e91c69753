"""The watch of DIJobs, which kopf does, for as long as the API server serves DIJobs.

kopf looks for the resource once, when it starts, and ends if the resource goes away. So it is
started when the CRD is there, and again when the CRD comes back (GitOps tools apply in any order,
and some recreate a CRD). Its own scanning would need the permission to watch the CRDs of the
cluster.

kopf's `on.event` only: it writes nothing into users' objects, no finalizer and no annotation
(docs/decisions/002).
"""

import asyncio
import logging
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import kopf

from dijob import names
from dijob.core.backoff import doubled
from dijob.shell.api import Api, ApiError
from dijob.shell.arrivals import Arrivals
from dijob.shell.nostate import NoDiffBase, NoProgress
from dijob.shell.session import login

log = logging.getLogger(__name__)

# Between two looks for the CRD, and between two starts of a watch that ends at once.
LOOK_SECONDS = 1.0


class JobWatch:
    """Watches the DIJobs of these namespaces (none: of all). `served`: the API server serves
    DIJobs, and kopf has been started.
    """

    def __init__(self, api: Api, arrivals: Arrivals, namespaces: tuple[str, ...]) -> None:
        self._api = api
        self._arrivals = arrivals
        self._namespaces = namespaces
        self.served = False

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set, as SIGTERM and SIGINT do, or until the watch fails for
        good.
        """
        try:
            while await self._until_served(stop):
                self.served = True
                try:
                    await self._watch(stop)
                    return
                except Exception as error:
                    if not _no_resource(error) and await self._is_served() is not False:
                        raise
                    log.warning("the watch of dijobs ended because the CRD was deleted: %s", error)
                finally:
                    self.served = False
                self._arrivals.all_gone()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            stop.set()

    async def _until_served(self, stop: asyncio.Event) -> bool:
        """Wait for the CRD. False: `stop` was set before."""
        said = False
        while not stop.is_set() and not (served := await self._is_served()):
            if served is False and not said:
                text = "CRD %s.%s is not installed: apply crds/dijob.yaml of this version"
                log.warning(text, names.PLURAL, names.GROUP)
                said = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
        return not stop.is_set()

    async def _is_served(self) -> bool | None:
        """Whether the API server serves DIJobs, by the documents that kopf reads too; None: it does
        not say.
        """
        try:
            groups = await self._api.get("/apis")
            if all(group.get("name") != names.GROUP for group in groups.get("groups") or ()):
                return False
            found = await self._api.get(f"/apis/{names.API_VERSION}")
        except ApiError as error:
            # Without the right to look, kopf says what is wrong.
            return False if error.not_found else (error.status in (401, 403) or None)
        return any(one.get("name") == names.PLURAL for one in found.get("resources") or ())

    async def _watch(self, stop: asyncio.Event) -> None:
        """One run of kopf."""
        ended = asyncio.Event()
        watches = await kopf.spawn_tasks(
            registry=registry(self._arrivals),
            settings=settings(),
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            standalone=True,
            stop_flag=ended,
            # Only peering uses it, and standalone has none. Left out, kopf asks for the name of
            # the user, and dies where the image has no passwd entry for a uid that the cluster
            # has chosen.
            identity=names.MANAGER,  # type: ignore[arg-type]  # its type is private to kopf
        )
        # In place of kopf's own: all else here ends at the same time, for which kopf waits.
        for which in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(which, _end, which, stop)
        for task in watches:
            task.add_done_callback(lambda _: ended.set())
        stopping = asyncio.create_task(_relay(stop, ended))
        try:
            await kopf.run_tasks(watches, ignored=_OthersTasks())
        finally:
            stopping.cancel()


class _OthersTasks(Collection[Any]):
    """All tasks that are not kopf's: it cancels what was started meanwhile, as if it were alone."""

    def __contains__(self, task: object) -> bool:
        assert isinstance(task, asyncio.Task)
        code = getattr(task.get_coro(), "cr_code", None)
        return code is None or f"/{kopf.__name__}/" not in code.co_filename

    def __iter__(self) -> Iterator[Any]:
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _no_resource(error: BaseException) -> bool:
    """Whether a request of kopf's was answered with 404."""
    return getattr(error, "status", None) == 404


async def _relay(stop: asyncio.Event, ended: asyncio.Event) -> None:
    await stop.wait()
    ended.set()


def _end(which: signal.Signals, stop: asyncio.Event) -> None:
    log.info("received %s, shutting down", which.name)
    stop.set()


def registry(arrivals: Arrivals) -> kopf.OperatorRegistry:
    """What kopf is to do with events and credentials."""
    made = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=made)
    async def seen(event: kopf.RawEvent, **_: Any) -> None:
        try:
            arrivals.seen(event["type"], event["object"])
        except Exception as error:
            arrivals.aside(event["object"], error)

    kopf.on.login(registry=made)(login)
    return made


def settings() -> kopf.OperatorSettings:
    """Why each of these: kopf's own traps, see docs/decisions/002-level-triggered.md."""
    made = kopf.OperatorSettings()
    made.posting.enabled = False
    # Under a profiler, two thirds of kopf's time per event went into this, which nobody asks for.
    made.persistence.diffbase_storage = NoDiffBase()
    made.persistence.progress_storage = NoProgress()
    made.scanning.disabled = True
    # kopf would kill the process ten minutes after the end of its watch.
    made.process.ultimate_exiting_timeout = None
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 5
    # The default gives up after 54 s of a failing apiserver and ends the process. Capped, so that
    # what came while the apiserver was out of reach is seen within 10 s of its return.
    made.networking.error_backoffs = [doubled(times, (0.5, 6.0)) for times in range(1, 101)]
    made.watching.server_timeout = 300
    made.watching.inactivity_timeout = 70
    made.watching.reconnect_backoff = 0.5
    made.queueing.idle_timeout = 1
    return made
