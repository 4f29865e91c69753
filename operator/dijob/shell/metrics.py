"""The operator's own figures, served at /metrics. The help of each begins with the question that it
answers: docs/metrics.md is made of them (`make crds`).
"""

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from dijob import __version__, reasons
from dijob.core.report.milestones import CAUSES, Milestones

REGISTRY = CollectorRegistry()
# CPU, memory, open files and the start of the process, as all client libraries have them.
ProcessCollector(registry=REGISTRY)

BUILD = Gauge(
    "dijob_build_info",
    "Which versions run? Always 1.",
    ["version", "python_version"],
    registry=REGISTRY,
)
BUILD.labels(__version__, platform.python_version()).set(1)

LEADER = Gauge("dijob_leader", "Which operator acts? 1: this one, 0: it waits.", registry=REGISTRY)

JOBS = Gauge(
    "dijob_jobs",
    "Whose DIJobs are there, and where do they stand? New: no status yet. The 100 namespaces with"
    " most jobs have series of their own, (others) is the sum of the rest.",
    ["job_namespace", "phase"],
    registry=REGISTRY,
)
PODS = Gauge("dijob_pods", "How many pods do DIJobs have?", registry=REGISTRY)
SET_ASIDE = Gauge(
    "dijob_set_aside",
    "Is there an object that the operator cannot deal with? It leaves that alone until it changes;"
    " its log has a traceback.",
    ["kind"],
    registry=REGISTRY,
)

# What happens to jobs is counted by the operator that has written it into a status.
START_SECONDS = Histogram(
    "dijob_start_duration_seconds",
    "How long do people wait for a job? From its creation, or its resumption, to Running.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RECOVERY_SECONDS = Histogram(
    "dijob_recovery_duration_seconds",
    "How long is a job without all its ranks after a loss? From when the first rank was not Ready"
    " until all are; with restarts in a pod only where a rank was lost meanwhile.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RESTARTS = Counter(
    "dijob_restarts_total",
    "Why do ranks start again? The reasons of AddressesReady for which an address list dies, once"
    " per loss however many ranks it concerns; Crashed: a container failed and starts again in its"
    " pod.",
    ["cause"],
    registry=REGISTRY,
)
FINISHED = Counter(
    "dijob_jobs_finished_total",
    "How do DIJobs end? The condition that says so, and its reason.",
    ["outcome", "reason"],
    registry=REGISTRY,
)

PASSES = Counter(
    "dijob_passes_total",
    "Can the operator do its work? Passes over a DIJob.",
    ["outcome"],
    registry=REGISTRY,
)
PASS_SECONDS = Histogram(
    "dijob_pass_duration_seconds",
    "How long does a pass take, its calls to the apiserver included?",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)
LEFT_OUT = Gauge(
    "dijob_namespaces_left_out",
    "How many namespaces does another release serve?",
    registry=REGISTRY,
)
QUEUED = Gauge("dijob_queue_depth", "How many DIJobs wait for a pass?", registry=REGISTRY)
QUEUE_OLDEST = Gauge(
    "dijob_queue_oldest_seconds",
    "Does the operator keep up? For how long the DIJob has waited that waits longest for a pass; 0"
    " for none.",
    registry=REGISTRY,
)
QUEUE_SECONDS = Histogram(
    "dijob_queue_wait_seconds",
    "How long do DIJobs wait for their passes?",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)

API_REQUESTS = Counter(
    "dijob_api_requests_total",
    "What does the apiserver answer? none: nothing.",
    ["method", "code"],
    registry=REGISTRY,
)
API_SECONDS = Histogram(
    "dijob_api_request_duration_seconds",
    "Is the apiserver, or a webhook, slow? Until it began to answer a call, or the call was given"
    " up; watches are left out. LIST is a GET of a collection, kind a resource as in RBAC. The list"
    " and the watch of DIJobs themselves are kopf's, and not counted.",
    ["method", "kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=REGISTRY,
)
RELISTS = Counter(
    "dijob_relists_total",
    "Do watches break? Lists made because one broke or began.",
    ["kind"],
    registry=REGISTRY,
)
STREAM_AGE = Gauge(
    "dijob_stream_silence_seconds",
    "Is the operator blind? How long a watch has said nothing; the apiserver speaks once a minute"
    " at least.",
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
