"""Metrics of the requests to the apiserver, for the registry of the process that sends them.

They are in no registry at first: the operator serves them with its own metrics, and the HTTP server
does not serve them.
"""

from prometheus_client import Counter, Histogram

API_REQUESTS = Counter(
    "dijob_api_requests_total",
    "Requests to the apiserver by method and HTTP status code. The code none means no response.",
    ["method", "code"],
    registry=None,
)
API_SECONDS = Histogram(
    "dijob_api_request_duration_seconds",
    "Time from a request until the response begins, or until the request is given up; webhooks are"
    " included, watches are not. LIST is a GET of a collection; kind is a resource as in RBAC. The"
    " list and the watch of DIJobs belong to kopf and are not measured.",
    ["method", "kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=None,
)
