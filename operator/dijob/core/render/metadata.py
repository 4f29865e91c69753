"""Who an object is: the labels, annotations and owner of what the operator creates.

The keys below diengine/ are DI-orchestrator's (1.0 and 1.1, pkg/common/config.go): its users'
selectors find our pods.
"""

from typing import Any

from dijob import names
from dijob.api.model import DIJob
from dijob.core.members import Gang, Member

Metadata = dict[str, Any]


def of_service(job: DIJob) -> Metadata:
    """The metadata of the job's headless service."""
    # Its template's labels, where all pods have the same.
    common = job.spec.template.metadata.labels if job.spec.template else None
    return _metadata(job, job.metadata.name, common)


def of_pod(job: DIJob, gang: Gang, member: Member, template_hash: str) -> Metadata:
    """The metadata of a rank's pod."""
    pod_set = job.pod_set_of(member.rank)
    given = pod_set.template.metadata
    meta = _metadata(job, member.name, given.labels)
    meta["labels"] |= {
        names.LABEL_RANK: str(member.rank),
        names.LEGACY_POD: member.name,
        names.LEGACY_RANK: str(member.rank),
    }
    meta["annotations"] = {
        # `kubectl logs` and `exec` without -c take the program, and not the first container.
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


def of_server(job: DIJob) -> Metadata:
    """The metadata of what makes up the job's own Redis server. It is no rank, so nothing that
    selects the job's ranks may find it.
    """
    meta = _metadata(job, job.server, None)
    meta["labels"].pop(names.LABEL_JOB)
    meta["labels"].pop(names.LEGACY_JOB)
    meta["labels"][names.LABEL_SERVER] = job.metadata.name
    return meta


def _metadata(job: DIJob, name: str, labels: dict[str, str] | None) -> Metadata:
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
        # blockOwnerDeletion: a deletion in the foreground waits for the object.
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
