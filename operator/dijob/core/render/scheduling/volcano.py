"""The Volcano engine: a PodGroup of scheduling.volcano.sh/v1beta1.

Volcano considers the pods of a group only if the group has at least `minMember` pods. Then it
places either at least this many pods at the same time or no pod at all. Pods that have succeeded
count toward this number as long as they exist (JobInfo.ReadyTaskNum and ValidTaskNum in
pkg/scheduler/api), so `minMember` stays the same when a rank succeeds.

The PodGroup has no `minResources`. This field would have to change with the size of the job, and
the scheduler computes the same amounts from the pods. Without the field, Volcano skips only the
check that keeps a group out of the queue of pending groups (pkg/scheduler/actions/enqueue).
"""

from typing import Final

from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render.fields import Manifest
from dijob.core.render.priority import priority_class
from dijob.core.render.scheduling import members
from dijob.core.render.scheduling.row import EngineRow, Membership, PodMarks, Spec
from dijob.names import VOLCANO_GROUP, TopologyMode

API: Final = "scheduling.volcano.sh/v1beta1"
# Volcano's plugins distinguish the tasks of a job by this annotation.
TASK: Final = "volcano.sh/task-spec"
_MODES: Final = {TopologyMode.REQUIRED: "hard", TopologyMode.PREFERRED: "soft"}


def pod_group(job: DIJob, name: str, count: int, options: Options) -> Manifest:
    """Return the PodGroup."""
    given, spec = job.spec.scheduling, members.min_member(count)
    if given.queue:
        spec["queue"] = given.queue
    if priority := priority_class(job.pod_sets[0].pod, job, options):
        spec["priorityClassName"] = priority
    if wanted := given.topology:
        spec["networkTopology"] = {"mode": _MODES[wanted.mode], "highestTierName": wanted.key}
    return members.pod_group(job, API, name, spec)


def ignored(job: DIJob, spec: Spec) -> str:
    """Return the field that the API server has removed because the CRD is too old."""
    stored = spec.get("networkTopology") or {}
    if job.spec.scheduling.topology is None or stored.get("highestTierName"):
        return ""
    return "spec.scheduling.topology, because its version of Volcano has no highestTierName"


def in_group(of: Membership) -> PodMarks:
    """Return the marks that make a pod a member of the PodGroup."""
    task = {TASK: of.pod_set.name} if of.pod_set.name else {}
    return PodMarks(annotations={VOLCANO_GROUP: of.name, **task})


ROW: Final = EngineRow(
    kind=members.KIND,
    plural=members.PLURAL,
    api=API,
    manifest=pod_group,
    count=members.counted,
    resized=members.min_member,
    marks=in_group,
    dropped=ignored,
    switch="install Volcano (https://volcano.sh)",
    scheduler="volcano",
    counts_succeeded=True,
    queues=(API, "queues"),
    queue="default",
    queue_state="Open",
)
