"""The server's own figures, served at /metrics."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from dijob.api.reported import Progress

REGISTRY: Final = CollectorRegistry()

REQUESTS: Final = Counter(
    "dijob_server_requests_total",
    "Requests, by route and status",
    ["route", "code"],
    registry=REGISTRY,
)
SECONDS: Final = Histogram(
    "dijob_server_request_duration_seconds",
    "Seconds until a request was answered",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 8),
    registry=REGISTRY,
)
PROGRESS: Final = Gauge(
    "dijob_job_progress",
    "What a job has reported last, where the chart's server.jobMetrics is on",
    ["namespace", "job", "what"],
    registry=REGISTRY,
)


def tell(namespace: str, job: str, progress: Progress) -> None:
    """Set the gauges of a job."""
    for what in ("iteration", "env_step", "episode_return"):
        value = getattr(progress, what)
        if value is not None:
            PROGRESS.labels(namespace, job, what).set(value)
