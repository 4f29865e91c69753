"""The NetworkPolicy that lets nobody but a job's own ranks in to them, and whom the job names:
DI-engine unpickles what arrives at its ports (ding/framework/parallel.py), so whoever reaches one
can run code there.
"""

from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options, on_host
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """The policy alone. Policies add up: a user's own one lets in whom it names besides."""
    return (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata.of_service(job),
            "spec": spec(job),
        },
    )


def ranks(job: DIJob) -> dict[str, Any]:
    """Selects the pods of the job's ranks, and no other's."""
    return {"matchLabels": {names.LABEL_JOB: job.metadata.name}}


def spec(job: DIJob) -> dict[str, Any]:
    """Who may connect to the job's ranks."""
    return {"podSelector": ranks(job), "policyTypes": ["Ingress"], "ingress": _ingress(job)}


def _ingress(job: DIJob) -> list[dict[str, Any]]:
    """The user's rules come first: the apiserver's words about one have its number in the job.

    Everybody, where ranks are in a node's own network: a job has a policy then only from before.
    """
    if on_host(job):
        return [{}]
    given = job.spec.network_policy
    rules = given.ingress if given else ()
    wanted = [rule.model_dump(mode="json", by_alias=True, exclude_unset=True) for rule in rules]
    return [*wanted, {"from": [{"podSelector": ranks(job)}]}]
