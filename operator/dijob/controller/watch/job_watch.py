"""Runs kopf's watch of DIJobs while the CRD exists.

When it starts, kopf looks up the resource once. If the resource disappears, kopf stops. So this
module starts kopf when the CRD exists, and again after the CRD has been recreated. GitOps tools
apply objects in any order, and some recreate CRDs. If kopf itself scanned for CRDs, it would need
permission to watch all CRDs of the cluster.

Only kopf's `on.event` is used. Unlike kopf's other handlers, `on.event` writes no finalizers and no
annotations to users' objects (docs/decisions/002).
"""

import asyncio
import logging
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

import kopf

from dijob import names
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.kopf_session import login
from dijob.controller.watch.kopf_storage import NoDiffBase, NoProgress
from dijob.core.backoff import doubled_wait
from dijob.kube.api import Api, RequestError

log = logging.getLogger(__name__)

# Poll interval while the CRD is missing, and the pause between two starts of kopf.
LOOK_SECONDS = 1.0


class JobWatch:
    """Watches the DIJobs of some namespaces, or of all if none are given. `served` is true if the
    CRD exists and kopf was started.
    """

    def __init__(self, api: Api, arrivals: Arrivals, namespaces: tuple[str, ...]) -> None:
        self._api = api
        self._arrivals = arrivals
        self._namespaces = namespaces
        self.served = False

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until `stop` is set (by SIGTERM or SIGINT, among others), or until kopf fails for a
        reason other than a missing CRD.
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
        """Wait for the CRD. Return False if `stop` was set first."""
        reported = False
        while not stop.is_set() and not (served := await self._is_served()):
            if served is False and not reported:
                text = "CRD %s.%s is not installed: apply crds/dijob.yaml of this version"
                log.warning(text, names.PLURAL, names.GROUP)
                reported = True
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOOK_SECONDS)
        return not stop.is_set()

    async def _is_served(self) -> bool | None:
        """Return whether the apiserver serves DIJobs, according to the discovery documents, which
        kopf also reads. Return None if these documents could not be read.
        """
        try:
            groups = await self._api.get("/apis")
            if all(group.get("name") != names.GROUP for group in groups.get("groups") or ()):
                return False
            found = await self._api.get(f"/apis/{names.API_VERSION}")
        except RequestError as error:
            # If the operator lacks permission to read the documents, let kopf start: its error
            # names the permission that is missing.
            return False if error.not_found else (error.status in (401, 403) or None)
        return any(one.get("name") == names.PLURAL for one in found.get("resources") or ())

    async def _watch(self, stop: asyncio.Event) -> None:
        """Run kopf once."""
        ended = asyncio.Event()
        watches = await kopf.spawn_tasks(
            registry=make_registry(self._arrivals),
            settings=kopf_settings(),
            clusterwide=not self._namespaces,
            namespaces=self._namespaces,
            standalone=True,
            stop_flag=ended,
            # Only kopf's peering uses the identity, and `standalone` disables peering. Without an
            # identity, kopf looks up the name of the user, and crashes if the image has no passwd
            # entry for the uid. This happens on clusters that choose the uid of a container.
            identity=names.MANAGER,  # type: ignore[arg-type]  # its type is private to kopf
        )
        # Replace kopf's signal handlers. They would stop only kopf, which would then wait 5 s for
        # the operator's own tasks. These tasks would not know that they should stop.
        for which in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(which, _stop_on_signal, which, stop)
        for task in watches:
            task.add_done_callback(lambda _: ended.set())
        stopping = asyncio.create_task(_relay_stop(stop, ended))
        try:
            await kopf.run_tasks(watches, ignored=_OthersTasks())
        finally:
            stopping.cancel()


class _OthersTasks(Collection[Any]):
    """All tasks that are not kopf's. They are passed to kopf as `ignored`. Otherwise, kopf would
    cancel each of these tasks that was started after kopf itself. The reason is that kopf assumes
    that no other code runs in its event loop.
    """

    def __contains__(self, task: object) -> bool:
        assert isinstance(task, asyncio.Task)
        code = getattr(task.get_coro(), "cr_code", None)
        return code is None or f"/{kopf.__name__}/" not in code.co_filename

    def __iter__(self) -> Iterator[Any]:
        return (task for task in asyncio.all_tasks() if task in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _no_resource(error: BaseException) -> bool:
    """Whether one of kopf's requests failed with 404."""
    return getattr(error, "status", None) == 404


async def _relay_stop(stop: asyncio.Event, ended: asyncio.Event) -> None:
    await stop.wait()
    ended.set()


def _stop_on_signal(which: signal.Signals, stop: asyncio.Event) -> None:
    log.info("received %s, shutting down", which.name)
    stop.set()


def make_registry(arrivals: Arrivals) -> kopf.OperatorRegistry:
    """Return kopf's handlers: one for events and one for credentials."""
    made = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=made)
    async def seen(event: kopf.RawEvent, **_: Any) -> None:
        try:
            arrivals.seen(event["type"], event["object"])
        except Exception as error:
            arrivals.quarantine(event["object"], error)

    kopf.on.login(registry=made)(login)
    return made


def kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings (docs/decisions/002)."""
    made = kopf.OperatorSettings()
    # recorder.py posts events about jobs, and counts repeats in one object.
    made.posting.enabled = False
    # By default kopf stores its state in annotations, and computes a diff for each event. Only
    # handlers that the operator does not use need the state and the diff. Both together took two
    # thirds of kopf's time per event.
    made.persistence.diffbase_storage = NoDiffBase()
    made.persistence.progress_storage = NoProgress()
    # Scanning requires permission to watch CRDs and namespaces.
    made.scanning.disabled = True
    # A watch of kopf can end, for example because the CRD was deleted. By default, kopf then kills
    # the process ten minutes later.
    made.process.ultimate_exiting_timeout = None
    made.networking.request_timeout = 30
    made.networking.connect_timeout = 5
    # By default kopf gives up after 54 s, and the process exits. With these settings, it makes 100
    # retries. The longest pause is 6 s, so that changes are seen within 10 s after the apiserver is
    # reachable again.
    made.networking.error_backoffs = [doubled_wait(times, (0.5, 6.0)) for times in range(1, 101)]
    made.watching.server_timeout = 300
    # Bookmarks arrive once a minute, so a watch that is silent for longer is dead.
    made.watching.inactivity_timeout = 70
    made.watching.reconnect_backoff = 0.5
    made.queueing.idle_timeout = 1
    return made
