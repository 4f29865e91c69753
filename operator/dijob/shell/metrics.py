"""The operator's own figures, served at /metrics. docs/operations.md says what each is for."""

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from dijob import __version__, reasons
from dijob.core.report.milestones import CAUSES, Milestones

REGISTRY = CollectorRegistry()
# CPU, memory, open files and the start of the process, as all client libraries have them.
ProcessCollector(registry=REGISTRY)

BUILD = Gauge("dijob_build_info", "1, by version", ["version", "python_version"], registry=REGISTRY)
BUILD.labels(__version__, platform.python_version()).set(1)

LEADER = Gauge("dijob_leader", "1: this operator acts, 0: it waits", registry=REGISTRY)

JOBS = Gauge(
    "dijob_jobs",
    "DIJobs known, by their namespace and phase",
    ["job_namespace", "phase"],
    registry=REGISTRY,
)
PODS = Gauge("dijob_pods", "Pods of DIJobs known", registry=REGISTRY)
SET_ASIDE = Gauge(
    "dijob_set_aside", "Objects that the operator cannot deal with", ["kind"], registry=REGISTRY
)

# What happens to jobs is counted by the operator that has written it into a status.
START_SECONDS = Histogram(
    "dijob_start_duration_seconds",
    "Seconds from the creation of a DIJob, or from its resumption, to Running",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RECOVERY_SECONDS = Histogram(
    "dijob_recovery_duration_seconds",
    "Seconds from when a rank was lost until all ranks were Ready again",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RESTARTS = Counter(
    "dijob_restarts_total", "Times that ranks had to start again", ["cause"], registry=REGISTRY
)
FINISHED = Counter(
    "dijob_jobs_finished_total", "DIJobs that ended", ["outcome", "reason"], registry=REGISTRY
)

PASSES = Counter("dijob_passes_total", "Passes over a DIJob", ["outcome"], registry=REGISTRY)
PASS_SECONDS = Histogram(
    "dijob_pass_duration_seconds",
    "Seconds that one pass took, its calls included",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)
LEFT_OUT = Gauge(
    "dijob_namespaces_left_out", "Namespaces that another release serves", registry=REGISTRY
)
QUEUED = Gauge("dijob_queue_depth", "DIJobs that wait for a pass", registry=REGISTRY)
QUEUE_OLDEST = Gauge(
    "dijob_queue_oldest_seconds",
    "Seconds for which the DIJob has waited that waits longest for a pass",
    registry=REGISTRY,
)
QUEUE_SECONDS = Histogram(
    "dijob_queue_wait_seconds",
    "Seconds that a DIJob waited for its pass to begin",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)

API_REQUESTS = Counter(
    "dijob_api_requests_total", "Calls to the apiserver", ["method", "code"], registry=REGISTRY
)
API_SECONDS = Histogram(
    "dijob_api_request_duration_seconds",
    "Seconds until the apiserver began to answer a call that is no watch, or was given up",
    ["method", "kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
RELISTS = Counter(
    "dijob_relists_total", "Lists made because a watch broke or began", ["kind"], registry=REGISTRY
)
STREAM_AGE = Gauge(
    "dijob_stream_silence_seconds",
    "Seconds since a watch last said anything",
    ["kind"],
    registry=REGISTRY,
)

# From 0 on: Prometheus sees no increase in a series that begins with 1.
for _cause in CAUSES:
    RESTARTS.labels(_cause)
for _reason in (*reasons.Succeeded, *reasons.Failed):
    FINISHED.labels(_reason.condition, _reason.name)
for _outcome in ("done", "failed"):
    PASSES.labels(_outcome)


def count(happened: Milestones) -> None:
    """Count what a change of a status, which is stored, says has happened."""
    if happened.started is not None:
        START_SECONDS.observe(happened.started)
    if happened.recovered is not None:
        RECOVERY_SECONDS.observe(happened.recovered)
    for cause, times in happened.restarts.items():
        RESTARTS.labels(cause).inc(times)
    if happened.finished is not None:
        FINISHED.labels(happened.finished.outcome, happened.finished.reason).inc()
