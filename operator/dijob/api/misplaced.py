"""Warns about labels and annotations on the DIJob that have an effect only on pods.

Queues, autoscalers and sidecar injectors read such keys on pods. Pods get such keys only from their
template, so a key on the DIJob itself has no effect. Without a warning, a queue label on the DIJob
would silently let the pods run outside the queue's quota.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.parts import TemplateMetadata
from dijob.api.problems import Problem

KUEUE: Final = "Kueue"
ENABLE_KUEUE: Final = (
    ", or let an administrator set the chart value scheduling.kueue, so that Kueue admits the job"
    " as a whole"
)
# The programs that read a pod's keys in these domains and in their subdomains.
_DOMAINS: Final = {
    # Queues and schedulers.
    names.KUEUE_GROUP: KUEUE,
    "volcano.sh": "Volcano",
    "yunikorn.apache.org": "YuniKorn",
    "kai.scheduler": "the KAI scheduler",
    "runai": "the KAI scheduler",
    "run.ai": "the KAI scheduler",
    "scheduling.k8s.io": "the scheduler",
    "scheduling.x-k8s.io": "the scheduler",
    "scheduling.sigs.k8s.io": "the scheduler",
    "koordinator.sh": "Koordinator",
    # Programs that evict or move pods.
    "karpenter.sh": "Karpenter",
    "cluster-autoscaler.kubernetes.io": "the cluster autoscaler",
    "descheduler.alpha.kubernetes.io": "the descheduler",
    # Injectors, which add containers or volumes to pods.
    "istio.io": "Istio",
    "linkerd.io": "Linkerd",
    "kuma.io": "Kuma",
    "dapr.io": "Dapr",
    "consul.hashicorp.com": "Consul",
    "vault.hashicorp.com": "Vault",
    "opentelemetry.io": "OpenTelemetry",
    "datadoghq.com": "Datadog",
    "azure.workload.identity": "Azure workload identity",
    "gke-gcsfuse": "Cloud Storage FUSE",
    # Programs on the node.
    "container.apparmor.security.beta.kubernetes.io": "the kubelet",
    "k8s.v1.cni.cncf.io": "Multus",
    "cni.projectcalico.org": "Calico",
    "io.kubernetes.cri-o": "CRI-O",
    # Monitoring, logging and backup.
    "prometheus.io": "Prometheus",
    "co.elastic.logs": "Filebeat",
    "fluentbit.io": "Fluent Bit",
    "backup.velero.io": "Velero",
}
# Keys that have no domain, or whose domain also contains keys for other objects.
_KEYS: Final = {
    "queue": "YuniKorn",
    "applicationId": "YuniKorn",
    "controller.kubernetes.io/pod-deletion-cost": "Kubernetes",
    "iam.amazonaws.com/role": "kube2iam",
    names.DEFAULT_CONTAINER: "kubectl",
    "kubernetes.io/egress-bandwidth": "the network plugin",
    "kubernetes.io/ingress-bandwidth": "the network plugin",
}


def misplaced_key_warnings(job: DIJob, *, queued: bool = False) -> Iterator[Problem]:
    """Yield a warning for each key on the DIJob that has an effect only on pods and is missing from
    a template. `queued` says whether the operator itself uses Kueue's keys.
    """
    for field, given in (
        ("labels", job.metadata.labels),
        ("annotations", job.metadata.annotations),
    ):
        for key in sorted(given):
            reader = _reader_of_key(key)
            places = [
                f"{pod_set.path}.metadata.{field}"
                for pod_set in job.pod_sets
                if key not in _given_keys(pod_set.template.metadata, field)
            ]
            if reader and places and not (queued and reader == KUEUE):
                yield Problem(
                    f"metadata.{field}",
                    f"{key} has no effect here, because {reader} reads it on pods, and pods get"
                    f" their {field} from the template: put it into {' and '.join(places)}"
                    f"{ENABLE_KUEUE if key == names.KUEUE_QUEUE else ''}",
                )


def _given_keys(metadata: TemplateMetadata, field: str) -> Mapping[str, str]:
    found: Mapping[str, str] | None = getattr(metadata, field)
    return found or {}


def _reader_of_key(key: str) -> str | None:
    """Return the name of the program that reads a key on pods, or None if no such program is
    known.
    """
    domain, separator, _ = key.partition("/")
    parts = domain.split(".") if separator else []
    above = (".".join(parts[at:]) for at in range(len(parts)))
    return _KEYS.get(key) or next((_DOMAINS[one] for one in above if one in _DOMAINS), None)
