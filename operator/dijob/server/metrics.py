"""Prometheus metrics of the HTTP server."""

from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dijob.api.reported import Progress

REGISTRY: Final = CollectorRegistry()

REQUESTS: Final = Counter(
    "dijob_server_requests_total",
    "Requests to the HTTP server by route and status code.",
    ["route", "code"],
    registry=REGISTRY,
)
SECONDS: Final = Histogram(
    "dijob_server_request_duration_seconds",
    "Duration of a request to the HTTP server.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 8),
    registry=REGISTRY,
)
PROGRESS: Final = Gauge(
    "dijob_job_progress",
    "Last progress that a job reported. Served only if the chart value server.jobMetrics is true."
    " The series of a job are removed 10 minutes after its last report.",
    ["namespace", "job", "what"],
    registry=REGISTRY,
)
FAILED_WRITES: Final = Counter(
    "dijob_server_failed_writes_total",
    "Failed attempts to write a job's progress, caused by unexpected errors in the server. The"
    " server's log has a traceback for each.",
    registry=REGISTRY,
)


# The gauges of a job without reports are removed after this time. The server does not watch jobs,
# so it never learns when a job is deleted.
SILENT_SECONDS: Final = 600.0

_FIGURES: Final = ("iteration", "env_step", "episode_return")
# When each job (namespace, name) last reported, in monotonic seconds.
_reported: dict[tuple[str, str], float] = {}


def set_progress(namespace: str, job: str, progress: Progress, now: float) -> None:
    """Set the gauges of a job. `now` is in monotonic seconds."""
    _reported[namespace, job] = now
    for what in _FIGURES:
        value = getattr(progress, what)
        if value is not None:
            PROGRESS.labels(namespace, job, what).set(value)


def forget_silent(now: float) -> None:
    """Remove the gauges of jobs that have reported nothing for SILENT_SECONDS."""
    for job in [job for job, last in _reported.items() if last + SILENT_SECONDS < now]:
        del _reported[job]
        for what in _FIGURES:
            with suppress(KeyError):
                PROGRESS.remove(*job, what)
