"""Builds and runs the operator.

The DIJobs are watched by kopf, and their children by the operator's own stores. A queue calls the
reconciler. A standby does all of this except for the reconciliations, so that it can take over
without reading the cluster first.
"""

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from dijob.controller import health
from dijob.controller.cache.children import Children
from dijob.controller.cache.jobs import WentBackError
from dijob.controller.channel.address import resolve_address
from dijob.controller.channel.server import serve_channel
from dijob.controller.leader.claim_events import ClaimEvents
from dijob.controller.leader.claims import Claims
from dijob.controller.leader.leadership import Leadership, join_election
from dijob.controller.leader.lease import LeaseName
from dijob.controller.queue.workqueue import Key, WorkQueue
from dijob.controller.reconcile import Reconciler
from dijob.controller.watch import namespaces
from dijob.controller.watch.arrivals import Arrivals
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.job_watch import JobWatch
from dijob.controller.watch.news import News
from dijob.controller.write.recorder import Recorder
from dijob.core.options import Options
from dijob.kube.api import Api
from dijob.process.clock import SYSTEM

log = logging.getLogger(__name__)

# If a replica was a standby for longer than this, it restarts its watches when it becomes the
# leader. The node or network failure that stopped the previous leader may have killed these watches
# too.
WAITED_SECONDS = 10.0


@dataclass(frozen=True)
class Settings:
    """The command-line options. Without namespaces, the operator serves the whole cluster. Without
    a lease, there is no leader election.
    """

    namespaces: tuple[str, ...] = ()
    kubeconfig: str | None = None
    health_port: int = 8080
    channel_port: int = 8082
    job_metrics: bool = False
    lease: LeaseName | None = None
    options: Options = field(default_factory=Options)


async def run_operator(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT. A SIGTERM that arrives before kopf has started cancels this
    coroutine.
    """
    # PID 1 of a container ignores signals for which it has no handler. The handlers of job_watch.py
    # are installed only when kopf starts, and before that the operator waits for the apiserver.
    if (task := asyncio.current_task()) is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    # The garbage collector blocks the event loop: a collection took 38 ms with 50,000 new objects
    # and 190 ms with a million. A list of pods can consist of a million Python objects without
    # reference cycles. With 4,000 pods, the search for cycles took half of the start-up time. So
    # imported objects are excluded, and the young generations are small. A full collection is rare:
    # once per 30 million surviving objects.
    gc.freeze()
    gc.set_threshold(10_000, 2, 1_000)
    async with join_election(settings.kubeconfig, settings.lease) as leads:
        api = await Api.connect(settings.kubeconfig, leads.identity, leads.permission)
        try:
            await _run_replica(api, settings, leads)
        finally:
            await api.close()


async def _run_replica(api: Api, settings: Settings, leads: Leadership) -> None:
    left_out = await namespaces.find_unreadable(api, settings.namespaces) or frozenset()
    served = tuple(name for name in settings.namespaces if name not in left_out)
    options = settings.options
    children = Children.of(served, isolates=options.isolates, queues=options.queues)
    if options.channel:
        options = replace(options, channel=await resolve_address(options.channel))
    reconciler = Reconciler(api, children, options)
    release = f"{settings.lease.namespace}/{settings.lease.name}" if settings.lease else ""
    claims = Claims(api, release, served) if release else None
    claim_events = ClaimEvents(claims, reconciler.jobs, Recorder(api)) if claims else None
    queue = WorkQueue(partial(_reconcile_job, reconciler, claims, claim_events))
    News(reconciler, queue, children).connect()
    arrivals = Arrivals(reconciler, queue, children)
    audit = Audit(api, reconciler, queue, served)
    watch = JobWatch(api, arrivals, served)
    watchdog = health.Watchdog(children, reconciler.jobs, audit, api.availability, watch)
    stop = asyncio.Event()

    async def serve(waited: float) -> None:
        """Reconcile jobs as the leader. This replica was a standby for `waited` seconds."""
        async with asyncio.TaskGroup() as group:
            if waited > WAITED_SECONDS:
                children.renew()
                group.create_task(_until_it_went_back(audit.catch_up(), stop))
            if claims is not None:
                # The claims are read before the first reconciliation, so that jobs that another
                # release serves are skipped.
                await claims.begin()
                group.create_task(claims.run())
            group.create_task(reconciler.foreign_pods.run(served))
            await reconciler.delivery.begin(api)
            reconciler.launchers.serve()
            group.create_task(reconciler.progress.run())
            await queue.run()

    async def serve_launchers() -> None:
        # Until the pods are listed, the keys of their launchers are unknown. If the server accepted
        # connections before that, it would refuse thousands of launchers again and again.
        await children.synced()
        async with serve_channel(reconciler.launchers, settings.channel_port):
            await asyncio.Event().wait()

    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_until_it_went_back(children.run(api), stop)),
            group.create_task(_serve_as_leader(serve, leads, stop)),
            group.create_task(arrivals.release()),
            group.create_task(_until_it_went_back(audit.run(), stop)),
            group.create_task(_stop_for_others(api, settings.namespaces, left_out, stop)),
            group.create_task(
                health.serve_health(
                    settings.health_port, watchdog, job_metrics=settings.job_metrics
                )
            ),
            *([group.create_task(serve_launchers())] if options.channel else []),
        ]
        group.create_task(watch.run(stop))
        await stop.wait()
        for task in tasks:
            task.cancel()


async def _serve_as_leader(
    serve: Callable[[float], Coroutine[Any, Any, None]], leads: Leadership, stop: asyncio.Event
) -> None:
    """Call `serve` while this replica is the leader. Stop the process when it loses leadership.

    The caches and planned actions of the process may be stale by then. The kubelet restarts the
    container, and the new process is a standby.
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


async def _reconcile_job(
    reconciler: Reconciler, claims: Claims | None, claim_events: ClaimEvents | None, key: Key
) -> float | None:
    """Reconcile a job, or report that another release claims its namespace."""
    if claims is not None and claim_events is not None:
        if claims.other(key[0]):
            return await claim_events.report(key)
        claim_events.served(key)
    return await reconciler.reconcile(key)


async def _until_it_went_back(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Do the work, and stop the process if a WentBackError shows that etcd was restored from a
    backup. The kubelet restarts the container, and the new process reads everything again.
    """
    try:
        await work
    except WentBackError as error:
        log.error("%s; exiting to restart with the restored state", error)
        stop.set()


async def _stop_for_others(
    api: Api, given: tuple[str, ...], left_out: frozenset[str], stop: asyncio.Event
) -> None:
    """Stop the process when the set of readable namespaces has changed. The kubelet restarts the
    container, and the new process serves the new set.
    """
    if given:
        await namespaces.until_others(api, given, left_out)
        stop.set()
