"""The NetworkPolicy that lets nobody but a job's own ranks in to them: DI-engine unpickles what
arrives at its ports (ding/framework/parallel.py), so whoever reaches one can run code there.
"""

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """The policy alone. Policies add up: a user's own one lets in whom it names besides."""
    ranks = {"matchLabels": {names.LABEL_JOB: job.metadata.name}}
    return (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata.of_service(job),
            "spec": {
                "podSelector": ranks,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": ranks}]}],
            },
        },
    )
