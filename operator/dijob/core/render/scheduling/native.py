"""The Native engine: a PodGroup of Kubernetes' own scheduler (scheduling.k8s.io/v1beta1, 1.37).

The scheduler considers the pods of a group only while the group has at least `minCount` pods that
have not ended. Then it places either at least this many pods at the same time or no pod at all. So
the number must fall when ranks succeed. Otherwise, the new pod of a lost rank would wait forever.

The scheduler also requires that all pods of a group have the priority of the group.
"""

from typing import Final

from dijob.api.model import DIJob
from dijob.core.options import Options
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest
from dijob.core.render.priority import priority_class
from dijob.core.render.scheduling.row import EngineRow, Membership, PodMarks, Spec
from dijob.names import RestartScope

API: Final = "scheduling.k8s.io/v1beta1"
KIND: Final = "PodGroup"
PLURAL: Final = "podgroups"
GATE: Final = "TopologyAwareWorkloadScheduling"


def pod_group(job: DIJob, name: str, count: int, options: Options) -> Manifest:
    """Return the PodGroup. The ranks of the job are preempted together if a loss restarts all of
    them anyway.
    """
    mode = "all" if job.restart_scope is RestartScope.JOB else "single"
    spec: Manifest = {**min_count(count), "disruptionMode": {mode: {}}}
    if wanted := job.spec.scheduling.topology:
        spec["schedulingConstraints"] = {"topology": [{"key": wanted.key}]}
    if priority := priority_class(job.pod_sets[0].pod, job, options):
        spec["priorityClassName"] = priority
    meta = {**metadata.of_service(job), "name": name}
    return {"apiVersion": API, "kind": KIND, "metadata": meta, "spec": spec}


def min_count(count: int) -> Manifest:
    """Return the part of the spec that sets the number of pods. The API server accepts changes to
    this number, but not to the kind of the policy.
    """
    return {"schedulingPolicy": {"gang": {"minCount": count}}}


def counted(spec: Spec) -> int:
    """Return the number of pods that a PodGroup needs; 0 if it is not a gang."""
    gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
    return int(gang.get("minCount") or 0)


def ignored(job: DIJob, spec: Spec) -> str:
    """Return the field that the API server has removed, because its feature gate is disabled."""
    if job.spec.scheduling.topology is None or spec.get("schedulingConstraints"):
        return ""
    return f"spec.scheduling.topology, because the feature gate {GATE} is disabled"


def in_group(of: Membership) -> PodMarks:
    """Return the field that makes a pod a member of the PodGroup. The field is immutable."""
    return PodMarks(fields={"schedulingGroup": {"podGroupName": of.name}})


ROW: Final = EngineRow(
    kind=KIND,
    plural=PLURAL,
    api=API,
    manifest=pod_group,
    count=counted,
    resized=min_count,
    marks=in_group,
    dropped=ignored,
    switch=(
        "enable the feature gate GenericWorkload in the API server, the controller manager and the"
        f" scheduler, and set --runtime-config={API}=true on the API server"
    ),
)
