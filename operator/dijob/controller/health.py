"""Serves /livez, /readyz and /metrics, and if enabled, the progress of each job.

The check /livez fails if a watch has stopped while the apiserver responds to other requests,
because a restart of the process helps in that case. The check /readyz fails until the initial lists
are complete. The liveness endpoint of kopf is not used, because it always returns 200 (kopf issue
1276).
"""

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic.alias_generators import to_camel

from dijob import names
from dijob.controller import metrics
from dijob.controller.cache.children import Children
from dijob.controller.cache.jobs import Jobs
from dijob.controller.cache.stored_progress import recent_figures
from dijob.controller.watch.audit import Audit
from dijob.controller.watch.job_watch import JobWatch
from dijob.core.report.time_spent import COUNTED
from dijob.kube.availability import Availability
from dijob.process.bounded_http import serve_app
from dijob.process.clock import SYSTEM, Clock

log = logging.getLogger(__name__)

# Bookmarks arrive once a minute, and a silent watch is restarted after 70 s (api.Stream.silence).
# So if a watch has been silent for SILENCE_SECONDS, more than one attempt to restart it has failed.
SILENCE_SECONDS = 180.0
# The phase that the metrics show for a job without a phase.
NO_PHASE = "New"
# The namespaces with the most jobs have their own series; OTHERS is the sum of the rest. Without a
# limit, users who can create namespaces could make Prometheus store any number of series.
MOST_NAMESPACES = 100
OTHERS = "(others)"


@dataclass(frozen=True)
class Watchdog:
    """Checks how long each watch has been silent."""

    children: Children
    jobs: Jobs
    audit: Audit
    availability: Availability
    watch: JobWatch
    clock: Clock = SYSTEM

    def problems(self) -> list[str]:
        """Return a message for each watch that has stopped; [] if the operator is healthy."""
        # While the apiserver is unreachable, a new process would receive no more events than this
        # one. So a watch is treated as stopped only after the apiserver has been reachable for
        # SILENCE_SECONDS without interruption.
        answered = self.availability.presence
        found = [
            f"the watch of {store.kind} has received nothing for {store.silence:.0f} s"
            for store in self.children.stores.values()
            if min(store.silence, answered) > SILENCE_SECONDS
        ]
        behind = 0.0 if self.audit.behind is None else self.clock.monotonic() - self.audit.behind
        if min(behind, answered) > SILENCE_SECONDS:
            found.append("the watch of dijobs has stopped delivering changes")
        return found

    def measure(self) -> None:
        """Set the gauges that are computed only when they are scraped."""
        metrics.PODS.set(len(self.children.pods))
        for store in self.children.stores.values():
            metrics.STREAM_AGE.labels(store.kind).set(store.silence)
        # Otherwise phases and namespaces that no longer have jobs would keep their last value.
        metrics.JOBS.clear()
        for (namespace, phase), jobs in limit_namespaces(self.jobs.phases()).items():
            metrics.JOBS.labels(namespace, phase or NO_PHASE).set(jobs)
        activities = self.jobs.activities()
        for activity in COUNTED:
            metrics.ACTIVITIES.labels(activity.value).set(activities[activity.value])
        metrics.STALLED.set(self.jobs.stalled())

    def lives(self) -> tuple[bool, str]:
        """Return whether the process is healthy, and the message for the response."""
        if problems := self.problems():
            return False, "; ".join(problems)
        away = self.availability.absence
        return True, f"ok; no response from the apiserver for {away:.0f} s" if away else "ok"

    def waits_for(self) -> str:
        """Return why the operator is not ready, or "" if it is."""
        if not self.watch.served:
            return f"the CRD {names.PLURAL}.{names.GROUP} is not installed"
        return (
            "" if self.children.listed else "the initial list of pods and services is not complete"
        )


def limit_namespaces(phases: Counter[tuple[str, str]]) -> Counter[tuple[str, str]]:
    """Keep the MOST_NAMESPACES namespaces with the most jobs, and add up all others as OTHERS."""
    sizes = Counter[str]()
    for (namespace, _), jobs in phases.items():
        sizes[namespace] += jobs
    shown = {namespace for namespace, _ in sizes.most_common(MOST_NAMESPACES)}
    found = Counter[tuple[str, str]]()
    for (namespace, phase), jobs in phases.items():
        found[namespace if namespace in shown else OTHERS, phase] += jobs
    return found


def measure_progress(jobs: Jobs, now: datetime) -> None:
    """Set the progress gauges of all jobs."""
    metrics.JOB_PROGRESS.clear()
    for namespace, name in jobs.uids().values():
        for figure, value in recent_figures(jobs.get((namespace, name)), now).items():
            metrics.JOB_PROGRESS.labels(namespace, name, figure).set(value)


def progress_document(jobs: Jobs, namespace: str, name: str, now: datetime) -> dict[str, float]:
    """Return the recent progress of a job as JSON for autoscalers; {} if there is none."""
    figures = recent_figures(jobs.get((namespace, name)), now)
    return {to_camel(figure): value for figure, value in figures.items()}


async def serve_health(port: int, watchdog: Watchdog, *, job_metrics: bool = False) -> None:
    """Serve until canceled. Port 0 disables the server. With `job_metrics`, also serve the progress
    of each job.
    """
    if port == 0:
        return

    async def livez(_: web.Request) -> web.Response:
        lives, message = watchdog.lives()
        return web.Response(status=200 if lives else 500, text=message)

    async def readyz(_: web.Request) -> web.Response:
        lacking = watchdog.waits_for()
        return web.Response(status=503 if lacking else 200, text=lacking or "ok")

    async def show(_: web.Request) -> web.Response:
        watchdog.measure()
        if job_metrics:
            measure_progress(watchdog.jobs, watchdog.clock.now())
        return web.Response(
            body=generate_latest(metrics.REGISTRY), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    async def show_progress(request: web.Request) -> web.Response:
        names_ = (request.match_info["namespace"], request.match_info["name"])
        found = progress_document(watchdog.jobs, *names_, watchdog.clock.now())
        # An autoscaler treats an error as "unknown", and does not change the size.
        missing = {"error": "the job is not running, or has not reported progress recently"}
        return web.json_response(found or missing, status=200 if found else 404)

    app = web.Application()
    app.add_routes(
        [web.get("/livez", livez), web.get("/readyz", readyz), web.get("/metrics", show)]
    )
    if job_metrics:
        app.add_routes([web.get("/progress/{namespace}/{name}", show_progress)])
    async with serve_app(app, port):
        await asyncio.Event().wait()
