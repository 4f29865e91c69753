"""Puts the operator together: kopf watches the DIJobs, two stores watch their children, one queue
does the passes.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dijob.core.options import Options
from dijob.shell import health, namespaces
from dijob.shell.api import Api
from dijob.shell.arrivals import Arrivals
from dijob.shell.audit import Audit
from dijob.shell.children import Children
from dijob.shell.claims import Claims
from dijob.shell.clock import SYSTEM
from dijob.shell.job_watch import JobWatch
from dijob.shell.jobs import WentBackError
from dijob.shell.leadership import Leadership, leadership
from dijob.shell.lease import LeaseName
from dijob.shell.left_alone import LeftAlone
from dijob.shell.reconcile import Reconciler
from dijob.shell.recorder import Recorder
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
    # apiserver that is away before anything does (job_watch.py).
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
    left = LeftAlone(claims, reconciler.jobs, Recorder(api)) if claims else None
    queue = WorkQueue(partial(_pass, reconciler, claims, left))
    children.connect(reconciler.jobs.key_of_owner, queue)
    arrivals = Arrivals(reconciler, queue, children)
    audit = Audit(api, reconciler, queue, served)
    watch = JobWatch(api, arrivals, served)
    watchdog = health.Watchdog(children, reconciler.jobs, audit, api.pulse, watch)
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
            group.create_task(reconciler.strangers.run(served))
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
        group.create_task(watch.run(stop))
        await stop.wait()
        for task in tasks:
            task.cancel()


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


async def _pass(
    reconciler: Reconciler, claims: Claims | None, left: LeftAlone | None, key: Key
) -> float | None:
    """One pass over a job; none if another release serves its namespace."""
    if claims is not None and left is not None:
        if claims.other(key[0]):
            return await left.report(key)
        left.served(key)
    return await reconciler.reconcile(key)


async def _until_it_went_back(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Do the work; what starts the operator again starts it with what is there now."""
    try:
        await work
    except WentBackError as error:
        log.error("%s; exiting to restart with the restored state", error)
        stop.set()


async def _stop_for_others(
    api: Api, given: tuple[str, ...], left_out: frozenset[str], stop: asyncio.Event
) -> None:
    """What starts the operator again starts it with the namespaces that can be served then."""
    if given:
        await namespaces.until_others(api, given, left_out)
        stop.set()
