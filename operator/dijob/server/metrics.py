"""The server's own figures, served at /metrics."""

from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dijob.api.reported import Progress

REGISTRY: Final = CollectorRegistry()

REQUESTS: Final = Counter(
    "dijob_server_requests_total",
    "What do jobs and people ask of the server, and what does it answer?",
    ["route", "code"],
    registry=REGISTRY,
)
SECONDS: Final = Histogram(
    "dijob_server_request_duration_seconds",
    "How long does an answer take?",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 8),
    registry=REGISTRY,
)
PROGRESS: Final = Gauge(
    "dijob_job_progress",
    "What has a job reported last? Only where the chart's server.jobMetrics is on; 10 minutes after"
    " its last report a job has no series any more.",
    ["namespace", "job", "what"],
    registry=REGISTRY,
)
FAILED_WRITES: Final = Counter(
    "dijob_server_failed_writes_total",
    "How often did writing a job's progress fail by an error of the server? Its log has each.",
    registry=REGISTRY,
)


# A job that has said nothing for so long has no gauges any more.
SILENT_SECONDS: Final = 600.0

_FIGURES: Final = ("iteration", "env_step", "episode_return")
_told: dict[tuple[str, str], float] = {}


def tell(namespace: str, job: str, progress: Progress, now: float) -> None:
    """Set the gauges of a job, at a time in monotonic seconds."""
    _told[namespace, job] = now
    for what in _FIGURES:
        value = getattr(progress, what)
        if value is not None:
            PROGRESS.labels(namespace, job, what).set(value)


def forget_silent(now: float) -> None:
    """Take away the gauges of jobs that have said nothing for SILENT_SECONDS."""
    for job in [job for job, last in _told.items() if last + SILENT_SECONDS < now]:
        del _told[job]
        for what in _FIGURES:
            with suppress(KeyError):
                PROGRESS.remove(*job, what)
