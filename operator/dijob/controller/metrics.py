"""The operator's own metrics, served at /metrics.

The page docs/metrics.md is generated from the help texts (`make crds`), so they are written as
sentences for the people who operate the cluster. The metrics that are enabled by default have no
label for the job or the pod. Otherwise, the number of series would grow with the number of jobs.
"""

import platform
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dijob import __version__, reasons
from dijob.core.report.milestones import CAUSES, Milestones
from dijob.kube.metrics import API_REQUESTS, API_SECONDS

# The default registry is not used: it also has metrics of Python's garbage collector and platform.
REGISTRY = CollectorRegistry()
# The standard metrics of all client libraries: CPU, memory, open files, start time.
ProcessCollector(registry=REGISTRY)

BUILD = Gauge(
    "dijob_build_info",
    "Versions of the operator and of Python, as labels. The value is always 1.",
    ["version", "python_version"],
    registry=REGISTRY,
)
# Prometheus has no metrics with text values, so the versions are labels of a metric whose value is
# constant.
BUILD.labels(__version__, platform.python_version()).set(1)

LEADER = Gauge("dijob_leader", "1 if this replica is the leader, else 0.", registry=REGISTRY)

JOBS = Gauge(
    "dijob_jobs",
    "Number of DIJobs by namespace and phase. The phase New means that the job has no status yet."
    " The 100 namespaces with the most jobs have their own series. All other namespaces are added"
    ' up in the series with job_namespace="(others)".',
    ["job_namespace", "phase"],
    registry=REGISTRY,
)
ACTIVITIES = Gauge(
    "dijob_jobs_by_activity",
    "Number of DIJobs that have not ended, by current activity (status.goodput):"
    " Waiting (suspended, or waiting for a node, a quota or a queue), Starting, Running (all ranks"
    " are Ready) or Recovering. The goodput of the cluster is the average number of jobs in Running"
    " divided by the average number of jobs in all activities.",
    ["activity"],
    registry=REGISTRY,
)
PODS = Gauge("dijob_pods", "Number of pods that belong to DIJobs.", registry=REGISTRY)
QUARANTINED = Gauge(
    "dijob_quarantined",
    "Number of quarantined objects by kind. Processing them raised an unexpected exception, so the"
    " operator skips them until they change. Its log has a traceback for each.",
    ["kind"],
    registry=REGISTRY,
)

# A transition of a job is counted only by the replica that wrote it to the status. Standbys see the
# same status. If they counted the transition too, it would be counted twice (docs/decisions/031).
START_SECONDS = Histogram(
    "dijob_start_duration_seconds",
    "Time from the creation or resumption of a DIJob until it is Running.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
# Suspensions and resizes are not losses, so they are not measured here (docs/decisions/031).
RECOVERY_SECONDS = Histogram(
    "dijob_recovery_duration_seconds",
    "Time that a DIJob needs to recover from a lost rank: from the moment the first rank is no"
    " longer Ready until all ranks are Ready again. Restarts of containers alone are not measured.",
    buckets=(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600),
    registry=REGISTRY,
)
RESTARTS = Counter(
    "dijob_restarts_total",
    "Restarts of ranks by cause. If ranks restart because a peer list became stale, the cause is"
    " the reason of the condition AddressesReady. This counts as one restart, however many ranks"
    " restart. The cause Crashed counts containers that failed and were restarted in their pod.",
    ["cause"],
    registry=REGISTRY,
)
STALLED = Gauge(
    "dijob_jobs_stalled",
    "Number of DIJobs whose training is currently making no progress (the condition ProgressStalled"
    " is True, and the job has not ended).",
    registry=REGISTRY,
)
FINISHED = Counter(
    "dijob_jobs_finished_total",
    "Finished DIJobs by outcome (the condition Succeeded or Failed) and its reason.",
    ["outcome", "reason"],
    registry=REGISTRY,
)

RECONCILIATIONS = Counter(
    "dijob_reconciliations_total",
    "Reconciliations of DIJobs by outcome.",
    ["outcome"],
    registry=REGISTRY,
)
RECONCILE_SECONDS = Histogram(
    "dijob_reconcile_duration_seconds",
    "Duration of a reconciliation, including its requests to the apiserver.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)
LEFT_OUT = Gauge(
    "dijob_namespaces_left_out",
    "Number of namespaces that this operator skips because another release claims them.",
    registry=REGISTRY,
)
QUEUED = Gauge(
    "dijob_queue_depth", "Number of DIJobs that are waiting to be reconciled.", registry=REGISTRY
)
QUEUE_OLDEST = Gauge(
    "dijob_queue_oldest_seconds",
    "Longest time that a DIJob in the queue has waited to be reconciled; 0 if the queue is empty.",
    registry=REGISTRY,
)
QUEUE_SECONDS = Histogram(
    "dijob_queue_wait_seconds",
    "Time that DIJobs spend in the queue before they are reconciled.",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)

LAUNCHERS = Gauge(
    "dijob_launchers_connected", "Number of launchers that are connected.", registry=REGISTRY
)
JOB_PROGRESS = Gauge(
    "dijob_job_figure",
    "Progress of a job and signals for its autoscaler, as in status.progress. Each replica serves"
    " this metric, but only if the chart value jobMetrics is true. A job that is not running, or"
    " has made no progress for 5 minutes, has no series.",
    ["job_namespace", "job_name", "what"],
    registry=REGISTRY,
)
LISTS = Counter(
    "dijob_lists_sent_total",
    "Peer lists sent to pods, by delivery method: through the channel, or as annotations of"
    " the pod.",
    ["way"],
    registry=REGISTRY,
)
REFUSED = Counter(
    "dijob_channel_refused_total",
    "Launchers' requests that the operator refused, by HTTP status. A standby refuses with 503.",
    ["status"],
    registry=REGISTRY,
)

REGISTRY.register(API_REQUESTS)
REGISTRY.register(API_SECONDS)
RELISTS = Counter(
    "dijob_relists_total",
    "LIST requests that the operator sent because a watch began or broke.",
    ["kind"],
    registry=REGISTRY,
)
STREAM_AGE = Gauge(
    "dijob_stream_silence_seconds",
    "Seconds since the last event or bookmark of each watch. The apiserver sends a bookmark at"
    " least once a minute.",
    ["kind"],
    registry=REGISTRY,
)

# Create the series with the value 0. Prometheus cannot see an increase in a series that starts
# at 1, so `increase()` would miss the first failure.
for _cause in CAUSES:
    RESTARTS.labels(_cause)
for _reason in (*reasons.Succeeded, *reasons.Failed):
    FINISHED.labels(_reason.condition, _reason.name)
for _way in ("channel", "annotations"):
    LISTS.labels(_way)
for _status in (400, 403, 404, 409, 413, 429, 431, 503):
    REFUSED.labels(str(_status))
for _outcome in ("done", "failed"):
    RECONCILIATIONS.labels(_outcome)


class _FormerName(Collector):
    """A metric under the name that it had in version 0.1.0, with the same series."""

    def __init__(self, former: str, metric: MetricWrapperBase) -> None:
        self._former, self._metric = former, metric
        # These attributes have the same names as in the library's own metrics. The program that
        # generates docs/metrics.md reads the attributes by these names.
        self._labelnames = metric._labelnames
        self._upper_bounds = getattr(metric, "_upper_bounds", ())
        REGISTRY.register(self)

    def describe(self) -> Iterator[Metric]:
        """Yield the metric without series; the registry reserves its name."""
        for metric in self._metric.describe():
            yield self._renamed(metric)

    def collect(self) -> Iterator[Metric]:
        """Yield the metric with its series."""
        for metric in self._metric.collect():
            yield self._renamed(metric)

    def _renamed(self, metric: Metric) -> Metric:
        current = f"{metric.name}_total" if metric.type == "counter" else metric.name
        text = f"Deprecated alias of {current}. Version 1.0 will remove this alias."
        old = Metric(self._former, text, metric.type)
        for sample in metric.samples:
            name = self._former + sample.name.removeprefix(metric.name)
            old.add_sample(name, sample.labels, sample.value, exemplar=sample.exemplar)
        return old


# Both names exist until version 1.0, so that dashboards and alerts can be changed one by one.
FORMER_NAMES = {
    "dijob_set_aside": QUARANTINED,
    "dijob_passes": RECONCILIATIONS,
    "dijob_pass_duration_seconds": RECONCILE_SECONDS,
}
for _former, _metric in FORMER_NAMES.items():
    _FormerName(_former, _metric)


def count_milestones(happened: Milestones) -> None:
    """Count the transitions of a job. Called after the apiserver has stored the status that
    contains them.
    """
    if happened.started is not None:
        START_SECONDS.observe(happened.started)
    if happened.recovered is not None:
        RECOVERY_SECONDS.observe(happened.recovered)
    for cause, times in happened.restarts.items():
        RESTARTS.labels(cause).inc(times)
    if happened.finished is not None:
        FINISHED.labels(happened.finished.outcome, happened.finished.reason).inc()
