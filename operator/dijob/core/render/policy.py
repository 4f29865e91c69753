"""The NetworkPolicy that restricts ingress to a job's ranks: only the ranks themselves, and the
peers that the job specifies, can connect.

DI-engine unpickles what arrives at its ports (ding/framework/parallel.py), so anyone who can
connect to such a port can run code in the rank.
"""

from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.options import Options, on_host
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest


def isolation_manifests(job: DIJob, _options: Options) -> tuple[Manifest, ...]:
    """Return the job's NetworkPolicy. Policies are additive, so users can allow more peers with a
    policy of their own.
    """
    return (
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata.of_service(job),
            "spec": ingress_spec(job),
        },
    )


def select_ranks(job: DIJob) -> dict[str, Any]:
    """Return a selector for the pods of the job's ranks."""
    return {"matchLabels": {names.LABEL_JOB: job.metadata.name}}


def ingress_spec(job: DIJob) -> dict[str, Any]:
    """Return the spec of the policy: which peers may connect to the job's ranks."""
    return {
        "podSelector": select_ranks(job),
        "policyTypes": ["Ingress"],
        "ingress": _ingress_rules(job),
    }


def _ingress_rules(job: DIJob) -> list[dict[str, Any]]:
    """Return the ingress rules. The user's rules come first, so that each has the same index in an
    API error as in the job.

    With hostNetwork everything is allowed, because policies cannot distinguish pods with
    hostNetwork from their node. Such a job has a policy only if its spec had no hostNetwork before.
    """
    if on_host(job):
        return [{}]
    given = job.spec.network_policy
    rules = given.ingress if given else ()
    wanted = [rule.model_dump(mode="json", by_alias=True, exclude_unset=True) for rule in rules]
    return [*wanted, {"from": [{"podSelector": select_ranks(job)}]}]
