"""The operator's own figures, served at /metrics."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

REGISTRY = CollectorRegistry()

PASSES = Counter("dijob_passes_total", "Passes over a DIJob", ["outcome"], registry=REGISTRY)
PASS_SECONDS = Histogram(
    "dijob_pass_duration_seconds",
    "Seconds that one pass took, its calls included",
    buckets=(0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60),
    registry=REGISTRY,
)
LEADER = Gauge("dijob_leader", "1: this operator acts, 0: it waits", registry=REGISTRY)
LEFT_OUT = Gauge(
    "dijob_namespaces_left_out", "Namespaces that another release serves", registry=REGISTRY
)
QUEUED = Gauge("dijob_queue_depth", "DIJobs that wait for a pass", registry=REGISTRY)
JOBS = Gauge("dijob_jobs", "DIJobs known", ["phase"], registry=REGISTRY)
PODS = Gauge("dijob_pods", "Pods of DIJobs known", registry=REGISTRY)
SET_ASIDE = Gauge(
    "dijob_set_aside", "Objects that the operator cannot deal with", ["kind"], registry=REGISTRY
)
API_REQUESTS = Counter(
    "dijob_api_requests_total", "Calls to the apiserver", ["method", "code"], registry=REGISTRY
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
