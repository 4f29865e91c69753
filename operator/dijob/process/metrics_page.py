"""Serves the metrics of a process to Prometheus. (This module is separate from service.py, so that
the page in the cluster can use service.py without importing the Prometheus client.)
"""

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


def add_metrics(app: web.Application, registry: CollectorRegistry) -> web.Application:
    """Serve a registry at /metrics, and return the application."""

    async def show(_: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app.router.add_get("/metrics", show)
    return app
