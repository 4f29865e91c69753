"""The KAI engine: a PodGroup of scheduling.run.ai/v2alpha2, for the KAI Scheduler.

KAI's pod grouper creates a PodGroup for each pod. It does not know the kind DIJob, so the group of
a rank would have one member, and there would be no gang. An annotation of the pod tells the pod
grouper to leave the pod alone (shouldSkipPodGrouper in pkg/podgrouper), so the operator creates the
PodGroup. The scheduler counts only pods that have not ended (PodSet.IsReadyForScheduling), so the
PodGroup's minMember must be lowered when ranks succeed.
"""

from typing import Final

from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render.fields import Manifest
from dijob.core.render.priority import priority_class
from dijob.core.render.scheduling import members
from dijob.core.render.scheduling.row import EngineRow, Membership, PodMarks
from dijob.names import KAI_GROUP

API: Final = "scheduling.run.ai/v2alpha2"
QUEUES_API: Final = "scheduling.run.ai/v2"
QUEUE: Final = "kai.scheduler/queue"
SKIP_GROUPER: Final = "kai.scheduler/skip-podgrouper"
# A group without a queue is never scheduled. The pod grouper uses this queue, too.
DEFAULT_QUEUE: Final = "default-queue"


def pod_group(job: DIJob, name: str, count: int, options: Options) -> Manifest:
    """Return the PodGroup."""
    spec = {**members.min_member(count), "queue": queue_of(job)}
    if priority := priority_class(job.pod_sets[0].pod, job, options):
        spec["priorityClassName"] = priority
    made = members.pod_group(job, API, name, spec)
    made["metadata"]["labels"] |= {QUEUE: spec["queue"]}
    return made


def queue_of(job: DIJob) -> str:
    """Return the job's queue."""
    return job.spec.scheduling.queue or DEFAULT_QUEUE


def in_group(of: Membership) -> PodMarks:
    """Return the marks that make a pod a member of the PodGroup."""
    return PodMarks(
        labels={QUEUE: queue_of(of.job)},
        annotations={KAI_GROUP: of.name, SKIP_GROUPER: "true"},
    )


ROW: Final = EngineRow(
    kind=members.KIND,
    plural=members.PLURAL,
    api=API,
    manifest=pod_group,
    count=members.counted,
    resized=members.min_member,
    marks=in_group,
    switch="install the KAI Scheduler (https://github.com/kai-scheduler/KAI-Scheduler)",
    scheduler="kai-scheduler",
    queues=(QUEUES_API, "queues"),
    queue=DEFAULT_QUEUE,
)
