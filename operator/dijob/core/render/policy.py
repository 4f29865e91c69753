"""The NetworkPolicy that lets nobody but a job's own ranks in to them, and whom the job names:
DI-engine unpickles what arrives at its ports (ding/framework/parallel.py), so whoever reaches one
can run code there.
"""

import hashlib
import json
from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options, on_host
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """The policy alone. Policies add up: a user's own one lets in whom it names besides."""
    made = metadata.of_service(job)
    made["annotations"] = {names.ANNOTATION_TEMPLATE: fingerprint(job)}
    return (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": made,
            "spec": _spec(job),
        },
    )


def change(job: DIJob) -> Manifest:
    """A merge patch that makes the policy what the job now asks for."""
    annotations = {names.ANNOTATION_TEMPLATE: fingerprint(job)}
    return {"metadata": {"annotations": annotations}, "spec": {"ingress": _ingress(job)}}


def fingerprint(job: DIJob) -> str:
    """A hash of whom the policy lets in: it shows whether it was made from this spec."""
    text = json.dumps(_ingress(job), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ranks(job: DIJob) -> dict[str, Any]:
    """Selects the pods of the job's ranks, and no other's."""
    return {"matchLabels": {names.LABEL_JOB: job.metadata.name}}


def _spec(job: DIJob) -> dict[str, Any]:
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
