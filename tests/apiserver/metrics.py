"""A small external metrics API with one metric, whose value a test sets."""

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

Body = dict[str, Any]

GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
METRIC = "waiting-episodes"


@dataclass
class Metric:
    """The value that the autoscaler reads, and the number of requests."""

    value: int = 0
    asked: int = 0
    port: int = field(default=0)

    def answer(self, path: str) -> Body | None:
        """Return the response for a path, or None if there is none."""
        root = f"/apis/{GROUP}/{VERSION}"
        if path.rstrip("/") == root:
            resource = {
                "name": METRIC,
                "singularName": "",
                "namespaced": True,
                "kind": "ExternalMetricValueList",
            }
            resources = [{**resource, "verbs": ["get"]}]
            return {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{GROUP}/{VERSION}",
            } | {"resources": resources}
        if path.startswith(f"{root}/namespaces/") and path.endswith(METRIC):
            self.asked += 1
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            item = {
                "metricName": METRIC,
                "metricLabels": {},
                "timestamp": now,
                "value": str(self.value),
            }
            return {
                "kind": "ExternalMetricValueList",
                "apiVersion": f"{GROUP}/{VERSION}",
                "metadata": {},
            } | {"items": [item]}
        return None

    def objects(self) -> list[Body]:
        """Return the APIService, and the Service that leads the apiserver to this process."""
        spec = {
            "group": GROUP,
            "version": VERSION,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "external-metrics", "namespace": "default", "port": self.port},
        }
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "external-metrics", "namespace": "default"},
                "spec": {
                    "type": "ExternalName",
                    "externalName": "localhost",
                    "ports": [{"port": self.port}],
                },
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{VERSION}.{GROUP}"},
                "spec": spec,
            },
        ]


@contextmanager
def served() -> Iterator[Metric]:
    """Serve the metric with HTTPS on a free port of the loopback interface."""
    metric = Metric()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = metric.answer(self.path.partition("?")[0])
            text = json.dumps(body or {}).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = _certified().wrap_socket(server.socket, server_side=True)
    metric.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield metric
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _certified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)
    return context
