"""Identity metadata: labels, annotations and ownerReferences of the objects that the operator
creates.

The keys that start with diengine/ are those of DI-orchestrator (1.0 and 1.1, pkg/common/config.go),
so its users' selectors match our pods.
"""

from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.members import Gang, GangMember

Metadata = dict[str, Any]


def of_service(job: DIJob) -> Metadata:
    """Return the metadata of the job's headless Service."""
    # The labels of the template, if all pods are created from the same template.
    common = job.spec.template.metadata.labels if job.spec.template else None
    return _common_metadata(job, job.metadata.name, common)


def of_pod(job: DIJob, gang: Gang, member: GangMember, template_hash: str) -> Metadata:
    """Return the metadata of a rank's pod."""
    pod_set = job.pod_set_of(member.rank)
    given = pod_set.template.metadata
    meta = _common_metadata(job, member.name, given.labels)
    meta["labels"] |= {
        names.LABEL_RANK: str(member.rank),
        names.LEGACY_POD: member.name,
        names.LEGACY_RANK: str(member.rank),
    }
    meta["annotations"] = {
        # Without this annotation, `kubectl logs` and `kubectl exec` would use the first container
        # by default, which may be an injected proxy.
        names.DEFAULT_CONTAINER: str(pod_set.main_container.get("name")),
        **(given.annotations or {}),
        names.ANNOTATION_TEMPLATE: template_hash,
        names.LEGACY_RANK: str(member.rank),
        names.LEGACY_REPLICAS: str(gang.size),
    }
    if member.task is not None:
        kind = {
            names.LEGACY_TASK_NAME: member.task.name,
            names.LEGACY_TASK_TYPE: member.task.type.value,
        }
        meta["labels"] |= kind
        meta["annotations"][names.LEGACY_TASK_RANK] = str(member.index)
    return meta


def of_budget(job: DIJob, name: str, labels: dict[str, str] | None) -> Metadata:
    """Return the metadata of a PodDisruptionBudget. `labels` are those of the ranks' template."""
    return _common_metadata(job, name, labels)


def of_server(job: DIJob) -> Metadata:
    """Return the metadata of the objects of the job's own Redis server. The server is not a rank,
    so selectors of the job's ranks must not match these objects.
    """
    meta = _common_metadata(job, job.server, None)
    meta["labels"].pop(names.LABEL_JOB)
    meta["labels"].pop(names.LEGACY_JOB)
    meta["labels"][names.LABEL_SERVER] = job.metadata.name
    return meta


def _common_metadata(job: DIJob, name: str, labels: dict[str, str] | None) -> Metadata:
    meta = job.metadata
    return {
        "name": name,
        "namespace": meta.namespace,
        "labels": {
            **(labels or {}),
            names.MANAGED_BY: names.MANAGER,
            names.LABEL_JOB: meta.name,
            names.LEGACY_OPERATOR: names.LEGACY_OPERATOR_NAME,
            names.LEGACY_JOB: meta.name,
            **({names.LEGACY_GROUP: job.spec.group} if job.spec.group else {}),
        },
        # With blockOwnerDeletion, a foreground deletion of the job waits for the object.
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": meta.name,
                "uid": meta.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
