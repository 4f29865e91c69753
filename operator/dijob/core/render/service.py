"""The headless Service that gives each rank of a job a DNS name."""

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def headless_spec(job: str) -> Manifest:
    """Return the spec of the headless Service for the job with this name."""
    return {
        "clusterIP": "None",
        # Names must resolve before a pod is Ready, because programs connect to each other to become
        # Ready.
        "publishNotReadyAddresses": True,
        "selector": {names.LABEL_JOB: job},
        "ports": [{"name": names.MAIN_PORT, "port": names.BASE_PORT}],
    }


def headless_manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """Return the headless Service."""
    return (
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata.of_service(job),
            "spec": headless_spec(job.metadata.name),
        },
    )
