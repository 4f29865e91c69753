"""The headless service that gives every rank of a job a name."""

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """The service alone. Ranks that use IPs do not wait for it."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_JOB: job.metadata.name},
        "ports": [{"name": names.MAIN_PORT, "port": names.BASE_PORT}],
    }
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata.of_service(job), "spec": spec},
    )
