"""Puts the operator together: kopf watches the DIJobs, two stores watch their children, one queue
does the passes.

kopf's `on.event` only: it writes nothing into users' objects, no finalizer and no annotation
(docs/decisions/002).
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import kopf

from dijob import names
from dijob.core.backoff import doubled
from dijob.core.options import Options
from dijob.shell import health, namespaces
from dijob.shell.api import Api
from dijob.shell.arrivals import Arrivals
from dijob.shell.audit import Audit
from dijob.shell.children import Children
from dijob.shell.claims import LOOK_SECONDS, Claims
from dijob.shell.clock import SYSTEM
from dijob.shell.jobs import WentBackError
from dijob.shell.leadership import Leadership, leadership
from dijob.shell.lease import LeaseName
from dijob.shell.nostate import NoDiffBase, NoProgress
from dijob.shell.reconcile import Reconciler
from dijob.shell.session import login
from dijob.shell.workqueue import Key, WorkQueue

log = logging.getLogger(__name__)

# An operator that has waited for so long had read everything, and its watches may have died since.
WAITED_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """What the command line says. No namespaces: the whole cluster; no lease: there is no other
    operator.
    """

    namespaces: tuple[str, ...] = ()
    kubeconfig: str | None = None
    health_port: int = 8080
    lease: LeaseName | None = None
    options: Options = field(default_factory=Options)


async def run(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; at a SIGTERM that comes before kopf runs, this is cancelled."""
    # The first process of a container ignores a signal that nothing handles, and waits for an
    # apiserver that is away before anything does (_watch_jobs).
    if (this := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    # What was imported stays, and a list of pods is a million objects none of which is part of a
    # cycle: looking for cycles among them took half of the time of a start among 4,000 pods.
    # Nobody else has a turn meanwhile: 50,000 new objects were seen to take 38 ms, a million
    # 190 ms. So few are looked through at once, and all of them only once in 30 million that stay.
    gc.freeze()
    gc.set_threshold(10_000, 2, 1_000)
    async with leadership(settings.kubeconfig, settings.lease) as leads:
        api = await Api.connect(settings.kubeconfig, leads.identity, leads.permission)
        try:
            await _run(api, settings, leads)
        finally:
            await api.close()


async def _run(api: Api, settings: Settings, leads: Leadership) -> None:
    left_out = await namespaces.closed(api, settings.namespaces) or frozenset()
    served = tuple(name for name in settings.namespaces if name not in left_out)
    children = Children.of(served, isolates=settings.options.isolates)
    reconciler = Reconciler(api, children, settings.options)
    release = f"{settings.lease.namespace}/{settings.lease.name}" if settings.lease else ""
    claims = Claims(api, release, served) if release else None
    queue = WorkQueue(partial(_pass, reconciler, claims))
    children.connect(reconciler.jobs.key_of_owner, queue)
    arrivals = Arrivals(reconciler, queue, children)
    audit = Audit(api, reconciler, queue, served)
    watchdog = health.Watchdog(children, reconciler.jobs, audit, api.pulse)
    stop = asyncio.Event()

    async def serve(waited: float) -> None:
        """Do passes, over what no other release serves."""
        async with asyncio.TaskGroup() as group:
            if waited > WAITED_SECONDS:
                children.renew()
                group.create_task(_until_it_went_back(audit.catch_up(), stop))
            if claims is not None:
                await claims.begin()
                group.create_task(claims.run())
            await queue.run()

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_until_it_went_back(children.run(api), stop)),
            group.create_task(_act(serve, leads, stop)),
            group.create_task(arrivals.release()),
            group.create_task(_until_it_went_back(audit.run(), stop)),
            group.create_task(_stop_for_others(api, settings.namespaces, left_out, stop)),
            group.create_task(health.serve(settings.health_port, watchdog)),
        ]
        group.create_task(_watch_jobs(arrivals, served, stop))
        await stop.wait()
        for task in tasks:
            task.cancel()


async def _watch_jobs(arrivals: Arrivals, served: tuple[str, ...], stop: asyncio.Event) -> None:
    """kopf's part, until `stop` is set, as SIGTERM and SIGINT do."""
    others = asyncio.all_tasks()
    try:
        watches = await kopf.spawn_tasks(
            registry=_registry(arrivals),
            settings=_kopf_settings(),
            clusterwide=not served,
            namespaces=served,
            standalone=True,
            stop_flag=stop,
            # Only peering uses it, and standalone has none. Left out, kopf asks for the name of
            # the user, and dies where the image has no passwd entry for a uid that the cluster
            # has chosen.
            identity=names.MANAGER,  # type: ignore[arg-type]  # its type is private to kopf
        )
        # In place of kopf's own: all else here ends at the same time, for which kopf waits.
        for which in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(which, _told_to_end, which, stop)
        for task in watches:
            task.add_done_callback(lambda _: stop.set())
        await kopf.run_tasks(watches, ignored=others)
    finally:
        stop.set()


def _told_to_end(which: signal.Signals, stop: asyncio.Event) -> None:
    log.info("%s: the operator ends", which.name)
    stop.set()


async def _act(
    serve: Callable[[float], Coroutine[Any, Any, None]], leads: Leadership, stop: asyncio.Event
) -> None:
    """Serve from when this operator leads, after so many seconds, until another one does. What
    this one has in mind is old then: the process ends, and is started again to wait.
    """
    began = SYSTEM.monotonic()
    try:
        await leads.acquire()
        async with asyncio.TaskGroup() as group:
            served = group.create_task(serve(SYSTEM.monotonic() - began))
            await leads.keep()
            served.cancel()
        stop.set()
    finally:
        await leads.release()


async def _pass(reconciler: Reconciler, claims: Claims | None, key: Key) -> float | None:
    """One pass over a job; none where another release serves its namespace: look again then."""
    if claims is not None and claims.other(key[0]):
        return LOOK_SECONDS
    return await reconciler.reconcile(key)


async def _until_it_went_back(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Do the work; what starts the operator again starts it with what is there now."""
    try:
        await work
    except WentBackError as error:
        log.error("%s; the operator ends, to begin with what is there now", error)
        stop.set()


async def _stop_for_others(
    api: Api, given: tuple[str, ...], left_out: frozenset[str], stop: asyncio.Event
) -> None:
    """What starts the operator again starts it with the namespaces that can be served then."""
    if given:
        await namespaces.until_others(api, given, left_out)
        stop.set()


def _registry(arrivals: Arrivals) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def seen(event: kopf.RawEvent, **_: Any) -> None:
        try:
            arrivals.seen(event["type"], event["object"])
        except Exception as error:
            arrivals.aside(event["object"], error)

    kopf.on.login(registry=registry)(login)
    return registry


def _kopf_settings() -> kopf.OperatorSettings:
    """Why each of these: kopf's own traps, see docs/decisions/002-level-triggered.md."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    # Under a profiler, two thirds of kopf's time per event went into this, which nobody asks for.
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    settings.scanning.disabled = True
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    # The default gives up after 54 s of a failing apiserver and ends the process. Capped, so that
    # what came while the apiserver was out of reach is seen within 10 s of its return.
    settings.networking.error_backoffs = [doubled(times, (0.5, 6.0)) for times in range(1, 101)]
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.watching.reconnect_backoff = 0.5
    settings.queueing.idle_timeout = 1
    return settings
