"""The Kueue engine: a Workload of kueue.x-k8s.io/v1beta2 for each job. Kueue admits the Workload
when its queue has quota for it.

The Workload has one pod set for each task, so that Kueue can assign a different flavor to each of
them. Only the last task's pod set has a minimum, because only the last task of a job can be
resized.

From the pod template, Kueue reads the resources and the placement. Commands, variables and probes
are left out, because a Workload is copied into Kueue's memory, and a template can be large.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from dijob import names
from dijob.api.model import DIJob
from dijob.api.numbers import parse_natural
from dijob.api.pod_sets import PodSet
from dijob.core.actions import CreateWorkload
from dijob.core.members import gang_of
from dijob.core.observed.queue_views import Flavor, Workload
from dijob.core.options import Options
from dijob.core.render import metadata
from dijob.core.render.fields import Manifest, objects_in
from dijob.core.render.pod import pod_manifest
from dijob.core.render.priority import priority_class
from dijob.core.render.redis import server_manifests
from dijob.core.render.scheduling.pod_set_names import MAIN, POD_SET, pod_set_name
from dijob.core.render.scheduling.row import NO_MARKS, PodMarks
from dijob.names import TopologyMode

API: Final = f"{names.KUEUE_GROUP}/v1beta2"
KIND: Final = "Workload"
PLURAL: Final = "workloads"
NOT_SERVED: Final = (
    f"the cluster does not serve {KIND} of {API} (to check: kubectl api-resources"
    f" --api-group={names.KUEUE_GROUP}), so the job cannot be queued: install Kueue, or remove the"
    f" label {names.KUEUE_QUEUE}"
)
OF_WORKLOAD: Final = f"{names.KUEUE_GROUP}/workload"
# The pod set of the job's Redis server.
SERVER_SET: Final = "redis"
GATE: Final = f"{names.KUEUE_GROUP}/topology"
TOPOLOGY: Final = {
    f"{names.KUEUE_GROUP}/podset-required-topology": "required",
    f"{names.KUEUE_GROUP}/podset-preferred-topology": "preferred",
}
UNCONSTRAINED: Final = f"{names.KUEUE_GROUP}/podset-unconstrained-topology"
# The parts of a container that matter for its placement.
CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy", "ports", "volumeMounts")


def queue_name(job: DIJob) -> str:
    """Return the name of the job's LocalQueue; "" if it has none."""
    return job.metadata.labels.get(names.KUEUE_QUEUE, "")


def workload_name(job: DIJob) -> str:
    """Return the name of the job's Workload. It begins with the name of the job's kind. Likewise,
    the name of a Workload for an object of another kind begins with the name of that kind.
    """
    digest = hashlib.sha256(job.metadata.uid.encode()).hexdigest()[:5]
    return f"dijob-{job.metadata.name}-{digest}"


def growth_name(job: DIJob, replaced: str, ranks: int) -> str:
    """Return the name of the Workload that replaces the one with this uid when the job grows to
    this number of ranks. A restarted operator finds the Workload under the same name.
    """
    digest = hashlib.sha256(f"{replaced} {ranks}".encode()).hexdigest()[:5]
    return f"{workload_name(job)}-{digest}"


def pod_set_names(job: DIJob) -> tuple[str, ...]:
    """Return the names of the Workload's pod sets, in order."""
    server = (server_set_name(job),) if job.server else ()
    return (*map(pod_set_name, job.pod_sets), *server)


def server_set_name(job: DIJob) -> str:
    """Return the name of the pod set of the job's Redis server; no task has this name."""
    taken, name = set(map(pod_set_name, job.pod_sets)), SERVER_SET
    while name in taken:
        name += "-server"
    return name


def has_minimum(job: DIJob) -> bool:
    """Whether Kueue may admit only some of the job's pods (partial admission)."""
    return 0 < _least(job) < job.pod_sets[-1].replicas


def _least(job: DIJob) -> int:
    """Return the minimum number of pods in the last pod set."""
    return job.spec.minimum - sum(one.replicas for one in job.pod_sets[:-1])


def workload_digest(job: DIJob) -> str:
    """Return a digest of the values from which the Workload is created."""
    given: tuple[Any, ...] = (
        job.fingerprint,
        [one.replicas for one in job.pod_sets],
        job.spec.scaled.min_replicas,
        {key: job.metadata.labels.get(key) for key in _KEYS},
        [_topology_request(job, one) for one in job.pod_sets],
    )
    if job.server:
        # Workloads of other jobs keep the digest that they got before this pod set existed.
        given = (*given, SERVER_SET)
    return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]


_KEYS: Final = (names.KUEUE_QUEUE, names.KUEUE_PRIORITY, names.KUEUE_SECONDS)


def priority_reference(job: DIJob, options: Options) -> Manifest:
    """Return the class that determines the job's position in the queue; {} if the job has none.

    This is the class in the job's label or, without this label, the priority class of its pods.
    """
    if name := job.metadata.labels.get(names.KUEUE_PRIORITY):
        return {"group": names.KUEUE_GROUP, "kind": "WorkloadPriorityClass", "name": name}
    found = (priority_class(one.pod, job, options) for one in job.pod_sets)
    if name := next(filter(None, found), ""):
        return {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": name}
    return {}


def workload(job: DIJob, priority: int, options: Options) -> Manifest:
    """Return the job's Workload. `priority` is the value of the Workload's priority class."""
    spec: Manifest = {
        "queueName": queue_name(job),
        "podSets": [_pod_set(job, one, options) for one in job.pod_sets],
        "priority": priority,
    }
    if job.server:
        spec["podSets"].append(_server_set(job, options))
    if found := priority_reference(job, options):
        spec["priorityClassRef"] = found
    seconds = parse_natural(job.metadata.labels.get(names.KUEUE_SECONDS, ""))
    if seconds:
        spec["maximumExecutionTimeSeconds"] = seconds
    meta = metadata.of_service(job)
    # The Workload does not get the labels of the template, because they are for pods.
    common = {key: meta["labels"][key] for key in (names.MANAGED_BY, names.LABEL_JOB)}
    meta["labels"] = {**common, f"{names.KUEUE_GROUP}/job-uid": job.metadata.uid}
    meta |= {
        "name": workload_name(job),
        "annotations": {names.ANNOTATION_WORKLOAD: workload_digest(job)},
    }
    return {"apiVersion": API, "kind": KIND, "metadata": meta, "spec": spec}


def larger_workload(job: DIJob, new: CreateWorkload, digest: str, options: Options) -> Manifest:
    """Return the Workload that replaces the current one when the job grows. Kueue reserves quota
    only for the additional pods. `digest` is the digest of the job at its full size.
    """
    job = job.resized(new.ranks)
    made = workload(job, new.priority, options)
    for pod_set in made["spec"]["podSets"]:
        # Kueue does not support partial admission of such a Workload.
        pod_set.pop("minCount", None)
    meta = made["metadata"]
    meta["name"] = new.name
    meta["annotations"] |= {
        names.ANNOTATION_WORKLOAD: digest,
        names.KUEUE_ELASTIC: "true",
        names.KUEUE_REPLACES: f"{job.metadata.namespace}/{new.replaces}",
    }
    return made


def growth_probe(job: DIJob) -> Manifest:
    """Return a test Workload. Kueue's response to it shows whether Kueue can replace a job's
    Workload with a larger Workload. If Kueue can do this, its webhook rejects the test Workload,
    because an elastic Workload cannot have a `minCount`. The test Workload is only sent as a dry
    run.
    """
    template = {"spec": {"containers": [{"name": "probe", "image": "probe"}]}}
    return {
        "apiVersion": API,
        "kind": KIND,
        "metadata": {
            "name": f"{workload_name(job)}-probe",
            "namespace": job.metadata.namespace,
            "annotations": {names.KUEUE_ELASTIC: "true"},
        },
        "spec": {
            "queueName": queue_name(job),
            "podSets": [{"name": MAIN, "count": 2, "minCount": 1, "template": template}],
        },
    }


def pod_marks(
    job: DIJob, pod_set: PodSet, admitted: Workload, flavors: Mapping[str, Flavor]
) -> PodMarks:
    """Return the marks for the pods of an admitted pod set. They place the pods on nodes of the
    assigned flavors, and include the updates from the admission checks.
    """
    found = _admission_marks(pod_set_name(pod_set), admitted, flavors)
    if not found.gates:
        return found
    topology = _topology_annotation(job, pod_set)
    return replace(found, annotations={**found.annotations, **topology})


def server_marks(job: DIJob, admitted: Workload, flavors: Mapping[str, Flavor]) -> PodMarks:
    """Return the marks that the pod of the job's Redis server gets from the admission. Workloads of
    older versions of the operator have no pod set for this pod.
    """
    name = server_set_name(job)
    if name not in admitted.assigned:
        return NO_MARKS
    found = _admission_marks(name, admitted, flavors)
    unconstrained = {UNCONSTRAINED: "true"} if found.gates else {}
    return replace(found, annotations={**found.annotations, **unconstrained})


def _admission_marks(name: str, admitted: Workload, flavors: Mapping[str, Flavor]) -> PodMarks:
    given = admitted.assigned[name]
    labels, annotations = {POD_SET: name}, {OF_WORKLOAD: admitted.name}
    selector, tolerations = dict[str, str](), list[Mapping[str, Any]]()
    for flavor in given.flavors:
        selector |= flavors[flavor].labels
        tolerations += flavors[flavor].tolerations
    for update in admitted.updates:
        if update.get("name") == name:
            labels |= update.get("labels") or {}
            annotations |= update.get("annotations") or {}
            selector |= update.get("nodeSelector") or {}
            tolerations += update.get("tolerations") or ()
    unique = [one for at, one in enumerate(tolerations) if one not in tolerations[:at]]
    return PodMarks(
        labels=labels,
        annotations=annotations,
        node_selector=selector,
        tolerations=tuple(unique),
        # Kueue removes the gate when it has chosen the pod's node.
        gates=(GATE,) if given.by_topology else (),
    )


def _topology_request(job: DIJob, pod_set: PodSet) -> Manifest:
    """Return the topology that the pods of a pod set need; {} if none is set. The annotations of
    their template take precedence over spec.scheduling.topology.
    """
    given = pod_set.template.metadata.annotations or {}
    for key, field in TOPOLOGY.items():
        if value := given.get(key):
            return {field: value}
    if wanted := job.spec.scheduling.topology:
        preferred = wanted.mode is TopologyMode.PREFERRED
        return {"preferred" if preferred else "required": wanted.key}
    return {}


def _topology_annotation(job: DIJob, pod_set: PodSet) -> dict[str, str]:
    """Return the annotation that tells Kueue to choose a pod's node."""
    request = _topology_request(job, pod_set)
    found = {key: request[field] for key, field in TOPOLOGY.items() if field in request}
    return found or {UNCONSTRAINED: "true"}


def _pod_set(job: DIJob, pod_set: PodSet, options: Options) -> Manifest:
    made: Manifest = {
        "name": pod_set_name(pod_set),
        "count": pod_set.replicas,
        "template": _template(job, pod_set, options),
    }
    if pod_set is job.pod_sets[-1] and has_minimum(job):
        made["minCount"] = _least(job)
    if request := _topology_request(job, pod_set):
        if not pod_set.name:
            # Kueue then gives neighboring nodes to neighboring ranks.
            request["podIndexLabel"] = names.LABEL_RANK
        made["topologyRequest"] = request
    return made


def _server_set(job: DIJob, options: Options) -> Manifest:
    *_, pod = server_manifests(job, options)
    spec = _without_programs(pod["spec"])
    return {"name": server_set_name(job), "count": 1, "template": {"spec": spec}}


def _template(job: DIJob, pod_set: PodSet, options: Options) -> Manifest:
    member = gang_of(job).member(pod_set.first)
    spec = _without_programs(pod_manifest(job, member, options)["spec"])
    given = pod_set.template.metadata
    meta = {"labels": given.labels, "annotations": given.annotations}
    return {"metadata": {key: dict(value) for key, value in meta.items() if value}, "spec": spec}


def _without_programs(pod: Manifest) -> Manifest:
    """Return the parts of a pod's spec that matter for its placement."""
    spec: Manifest = dict(pod)
    for field in ("hostname", "subdomain", "schedulingGroup"):
        spec.pop(field, None)
    for field in ("containers", "initContainers"):
        spec[field] = [
            {key: one[key] for key in CONTAINER_FIELDS if key in one}
            for one in objects_in(spec.get(field))
        ]
    return spec
