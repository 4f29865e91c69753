"""Prometheus metrics of the history."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY: Final = CollectorRegistry()

RECORDS: Final = Gauge(
    "dijob_history_records",
    "Number of records in the history, including those of jobs that still exist.",
    registry=REGISTRY,
)
BYTES: Final = Gauge(
    "dijob_history_bytes",
    "Size of the history in bytes, excluding the free space that deleted records have left.",
    registry=REGISTRY,
)
UNSTORED: Final = Gauge(
    "dijob_history_unstored_jobs",
    "Number of jobs whose newest record has not been stored yet. The history tries again until it"
    " succeeds.",
    registry=REGISTRY,
)
FAILED_WRITES: Final = Counter(
    "dijob_history_failed_writes_total",
    "Failed writes to the store of the history. The log has the reasons.",
    registry=REGISTRY,
)
LOST_LOGS: Final = Counter(
    "dijob_history_lost_logs_total",
    "Logs that the history could not read before their pods were gone.",
    registry=REGISTRY,
)
REQUESTS: Final = Counter(
    "dijob_history_requests_total",
    "Requests to the history by route and status code.",
    ["route", "code"],
    registry=REGISTRY,
)
