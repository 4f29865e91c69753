"""The YuniKorn engine: it needs only labels and annotations on the pods, and no PodGroup.

All pods with the same application ID form an application. When YuniKorn sees the first pod of an
application, it reads the task groups from this pod. It reserves room for `minMember` pods of each
group with placeholder pods, and replaces these with the real pods. After that, the numbers have no
effect: the new pod of a lost rank is scheduled like any other pod. So nothing has to be updated
when a rank succeeds or the job is resized.

Placeholder pods hold nodes while the application waits. After a timeout, YuniKorn deletes the
placeholder pods and schedules the real pods one by one (gangSchedulingStyle Soft, its default). The
template can choose otherwise with the annotation yunikorn.apache.org/schedulingPolicyParameters.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from dijob.api.model import DIJob
from dijob.api.pod_sets import PodSet
from dijob.core.members import parse_ranks
from dijob.core.render.fields import Manifest
from dijob.core.render.quantities import exact_quantity, pod_requests
from dijob.core.render.scheduling.row import EngineRow, Membership, PodMarks
from dijob.names import YUNIKORN_GROUPS

APPLICATION: Final = "applicationId"
QUEUE: Final = "queue"
GROUP: Final = "yunikorn.apache.org/task-group-name"
# The name of the task group of a job without tasks.
RANKS: Final = "ranks"
# A placeholder must have the same constraints as the real pod. Otherwise, it may hold a node on
# which the real pod cannot run.
_CONSTRAINTS: Final = ("nodeSelector", "tolerations", "affinity", "topologySpreadConstraints")


def in_application(of: Membership) -> PodMarks:
    """Return the marks that make a pod a member of the application. The IDs of applications are
    unique in the cluster, so the ID contains the job's uid.
    """
    life = of.name.removeprefix(of.job.metadata.name)
    labels = {APPLICATION: f"dijob-{of.job.metadata.uid}{life}"}
    if queue := of.job.spec.scheduling.queue:
        labels[QUEUE] = queue
    groups = json.dumps(list(task_groups(of.job, of.count)), separators=(",", ":"))
    return PodMarks(
        labels=labels, annotations={GROUP: _group_name(of.pod_set), YUNIKORN_GROUPS: groups}
    )


def task_groups(job: DIJob, count: int) -> Iterator[Manifest]:
    """Yield the task groups of the `count` lowest ranks that have not succeeded."""
    succeeded = parse_ranks(job.status.succeeded_ranks)
    for pod_set in job.pod_sets:
        ranks = range(pod_set.first, pod_set.first + pod_set.replicas)
        members = min(count, len(ranks) - sum(rank in ranks for rank in succeeded))
        count -= members
        if members > 0:
            yield {"name": _group_name(pod_set), "minMember": members, **_shape(pod_set)}


def _group_name(pod_set: PodSet) -> str:
    return pod_set.name or RANKS


def _shape(pod_set: PodSet) -> dict[str, Any]:
    """Return the fields that make a placeholder reserve the same room as a pod."""
    requests = pod_requests(pod_set.pod)
    amounts = {name: exact_quantity(value) for name, value in sorted(requests.items())}
    given = {key: value for key in _CONSTRAINTS if (value := pod_set.pod.get(key))}
    return {"minResource": amounts, **given}


ROW: Final = EngineRow(marks=in_application, scheduler="yunikorn")
