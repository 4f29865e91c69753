"""Turns raw objects of the API server into the frozen views (views.py).

Anyone with write access can change labels and annotations, so identity comes from what cannot be
forged without creating the object: names, ownerReferences and uids.
"""

import sys
from collections.abc import Mapping
from typing import Any

from dijob import names
from dijob.api.printed import plain_text
from dijob.core.addresses import AddressList, ListCopy
from dijob.core.members import split_pod_name
from dijob.core.observed import containers, disruptions, sandbox, scheduling
from dijob.core.observed.complaints import pod_complaint
from dijob.core.observed.containers import Containers
from dijob.core.observed.derived import list_fingerprints
from dijob.core.observed.made import controller_of, made_with, parse_number, starts_launcher
from dijob.core.observed.mounting import mount_failure
from dijob.core.observed.scheduling import pod_condition
from dijob.core.observed.termination import parse_termination
from dijob.core.observed.unready import find_unready
from dijob.core.observed.views import Child, Placement, Pod, RejectionCause

Body = Mapping[str, Any]

# The value of activeDeadlineSeconds that terminates a crash-looping pod and keeps its logs. The pod
# becomes Failed 1.6 s after the write.
END_SECONDS = 1


def parse_child(body: Body) -> Child:
    """Read the identity and the owner of an object. The rest of the object does not matter here."""
    meta = body["metadata"]
    return Child(
        name=meta["name"],
        uid=meta.get("uid", ""),
        owner=owner_of(meta),
        version=meta.get("resourceVersion", ""),
    )


def owner_of(meta: Body) -> str:
    """Return the key of the job that controls an object; "" if no job does.

    An ownerReference is valid only within its namespace, and the garbage collector ignores a
    reference to a kind that does not exist. So all fields of the reference must have the values
    that the operator writes.
    """
    owner = controller_of(meta)
    if (owner.get("apiVersion"), owner.get("kind")) != (names.API_VERSION, names.KIND):
        return ""
    return sys.intern(
        names.owner_key(meta.get("namespace", ""), str(owner.get("name")), str(owner.get("uid")))
    )


def classify_namesake(body: Body, job: str, uid: str) -> RejectionCause | None:
    """Classify an existing object whose name the job needs; None if it is the job's own object,
    which the watch has not shown yet.

    An object that is being deleted will free the name soon. So will the leftovers of a deleted job
    of the same name, which the garbage collector deletes within seconds. This is common: users
    often run `kubectl delete` and `kubectl apply` right after each other.
    """
    meta = body["metadata"]
    owner = controller_of(meta)
    if meta.get("deletionTimestamp"):
        return RejectionCause.TERMINATING
    if owner_of(meta) == names.owner_key(meta.get("namespace", ""), job, uid):
        return None
    leftover = owner.get("kind") == names.KIND and owner.get("name") == job
    return RejectionCause.TERMINATING if leftover else RejectionCause.TAKEN


def owner_in_words(body: Body) -> str:
    """Describe the owner of an object; "" if it is not known.

    The owner is the object's controller. Without a controller, it is read from the labels that a
    deletion with `--cascade=orphan` leaves on the object.
    """
    meta = body["metadata"]
    if owner := controller_of(meta):
        return plain_text(f"{owner.get('kind')} {owner.get('name')}")
    labels = meta.get("labels") or {}
    former = next((str(labels[label]) for label in names.OWNER_LABELS if label in labels), "")
    return f"a former DIJob {plain_text(former)}, according to its labels" if former else ""


def other_port(body: Body, manifest: Body) -> tuple[int, int] | None:
    """Return the port of an existing Service and the port that the job needs.

    Return None if both are the same, or if the object is not a Service. The port of a headless
    Service does not matter, because its names resolve to the pods themselves.
    """
    if manifest["kind"] != "Service" or manifest["spec"].get("clusterIP") == "None":
        return None
    (wanted,) = (port["port"] for port in manifest["spec"]["ports"])
    there = [port.get("port") for port in (body.get("spec") or {}).get("ports") or ()]
    return None if wanted in there else (next(iter(there), 0), wanted)


def parse_pod(body: Body) -> Pod:
    """Read one pod. The rank comes from the pod's name JOB-RANK (-1 if the name has no rank). The
    rank never comes from a label, because anyone can write labels.
    """
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    annotations = meta.get("annotations") or {}
    owner, made = controller_of(meta), made_with(meta, spec, status)
    main = containers.container_status(status, made.main)
    return Pod(
        rank=_rank_of(meta["name"], owner.get("name", "")),
        name=meta["name"],
        uid=meta.get("uid", ""),
        owner=owner_of(meta),
        version=meta.get("resourceVersion", ""),
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "Pending",
        ready=_is_true(status, "Ready"),
        deleting=bool(meta.get("deletionTimestamp")),
        ending_soon=spec.get("activeDeadlineSeconds") == END_SECONDS,
        complaint=scheduling.describe_gates(spec) or pod_complaint(spec, status, made.main),
        unmountable=mount_failure(spec, status, made.main),
        unready=find_unready(spec, status, made.main),
        unready_since=_unready_since(status) if made.channel_key else "",
        copy=list_copy(annotations),
        containers=_read_containers(meta, spec, status, main),
        made=made,
        placement=_read_placement(body, main),
    )


def _read_containers(meta: Body, spec: Body, status: Body, main: Body) -> Containers:
    policy = spec.get("restartPolicy") or ""
    in_front = starts_launcher(spec, main.get("name", ""))
    return Containers(
        failures=containers.count_failures(spec, status, main),
        init_failures=containers.init_failures(spec, status, main),
        sandbox=not sandbox.has_died(status, main, in_front),
        broken=policy == "Never" and bool(containers.exit_code(main)),
        all_ended=containers.all_ended(status, policy),
        succeeded=_has_succeeded(meta, status, main, in_front),
        unstarted=containers.has_not_started(status),
        gated=containers.is_at_gate(status),
        gate_started=containers.gate_started(status),
        last_end=containers.last_end(spec, status, main),
        started=containers.start_time(main),
        ended=containers.end_time(main),
        restarts=int(main.get("restartCount") or 0),
        ended_for=containers.renewal_of(main),
        unrecorded=containers.has_unrecorded_end(main),
    )


def _read_placement(body: Body, main: Body) -> Placement:
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    target = pod_condition(status, "DisruptionTarget")
    return Placement(
        created=meta.get("creationTimestamp") or "",
        node=spec.get("nodeName") or "",
        placed=_true_since(status, "PodScheduled"),
        unacknowledged=(silent := scheduling.unacknowledged_by(spec, status)),
        prerequisites=scheduling.required_objects(spec, status) if silent else (),
        silent_since=scheduling.silent_since(status),
        eviction_seconds=scheduling.eviction_seconds(spec),
        disrupted=_is_disrupted(status) or _went_down_with_its_node(spec, status, main),
        node_lost=target.get("reason") == "DeletionByTaintManager",
        termination=parse_termination(body),
        conditions=_condition_types(status),
    )


def list_copy(annotations: Mapping[str, str]) -> ListCopy:
    """Read the peer list from a pod's annotations. The text is interned, so all pods of a job share
    one string.
    """
    listed = parse_number(annotations.get(names.ANNOTATION_LIST_NUMBER))
    return ListCopy(
        address_list=AddressList(listed, sys.intern(annotations.get(names.ANNOTATION_IPS, ""))),
        pod_ip=annotations.get(names.ANNOTATION_POD_IP, ""),
        redis_run=sys.intern(annotations.get(names.ANNOTATION_BROKER, "")),
        renew_from=parse_number(annotations.get(names.ANNOTATION_RENEW)),
        ends_counted=parse_number(annotations.get(names.ANNOTATION_ENDS)),
        first_shape=sys.intern(annotations.get(names.ANNOTATION_SHAPE, "")),
        derived=list_fingerprints(annotations),
    )


def _condition_types(status: Body) -> tuple[str, ...]:
    """Return the conditions that a rule of the failure policy can match. The conditions that every
    pod has are left out.
    """
    found = (
        c for c in status.get("conditions") or () if c.get("type") not in names.ORDINARY_CONDITIONS
    )
    return tuple(sys.intern(f"{c.get('type')}={c.get('status')}") for c in found)


def _unready_since(status: Body) -> str:
    ready = pod_condition(status, "Ready")
    return str(ready.get("lastTransitionTime") or "") if ready.get("status") == "False" else ""


def _rank_of(name: str, job: str) -> int:
    prefix, rank = split_pod_name(name)
    return rank if prefix == job else -1


def _is_true(status: Body, kind: str) -> bool:
    return pod_condition(status, kind).get("status") == "True"


def _true_since(status: Body, kind: str) -> str:
    """Return the time at which the condition became True; "" if it is not True."""
    found = pod_condition(status, kind)
    return str(found.get("lastTransitionTime") or "") if found.get("status") == "True" else ""


def _has_succeeded(meta: Body, status: Body, main: Body, in_front: bool) -> bool:
    """Whether the main container exited 0 on its own, even if sidecars are still running. A program
    that exits 0 because its pod was terminated has not succeeded. `in_front`: the launcher runs the
    program.
    """
    if meta.get("deletionTimestamp") or disruptions.was_ended(status):
        return False
    if sandbox.ended_with_it(status, main, in_front):
        return False
    # A running pod that has been selected for termination may still succeed on its own, or be
    # terminated. So the exit code of its main container does not count yet.
    return status.get("phase") == "Succeeded" or (
        containers.exit_code(main) == 0 and not disruptions.is_targeted(status)
    )


def _is_disrupted(status: Body) -> bool:
    return disruptions.is_disrupted(status)


def _went_down_with_its_node(spec: Body, status: Body, main: Body) -> bool:
    for_good = spec.get("restartPolicy") == "Never" and containers.exit_code(main) is not None
    over = for_good or status.get("phase") == "Failed"
    last = containers.last_end(spec, status, main)
    return over and disruptions.went_down_with_its_node(status, last)
