"""Metrics of the requests to the apiserver.

This module does not register these metrics, because only the operator serves them. The HTTP server
also sends requests, but does not serve these metrics.
"""

from prometheus_client import Counter, Histogram

API_REQUESTS = Counter(
    "dijob_api_requests_total",
    "Requests to the apiserver by method and HTTP status code. If there was no response, the code"
    ' is "none".',
    ["method", "code"],
    registry=None,
)
API_SECONDS = Histogram(
    "dijob_api_request_duration_seconds",
    "Time from a request until the response begins, or until the client gives up. The time in"
    " webhooks is included. Watches are not measured, nor are the requests that kopf makes to list"
    " and watch DIJobs. The method LIST is a GET of a collection. The values of the label"
    ' "kind" are resource names, as in RBAC.',
    ["method", "kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
    registry=None,
)
