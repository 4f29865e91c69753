"""What is there: raw pods and services become frozen views that hold just what the plan asks about."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from dijob import names
from dijob.core import containers
from dijob.core.containers import Ending

Body = Mapping[str, Any]

# Reasons of a pod's status that are the cluster's doing, not the program's (design 6.3).
DISRUPTIONS = (
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TaintToleration",
    "NodeShutdown",
    "Terminated",
    "Evicted",
    "NodeLost",
)
# The deadline that ends a crash-looping pod and keeps its logs: Failed after 1.6 s (design 6.3).
END_SECONDS = 1
# A pod that has said nothing for this long after its creation is asked after (its events are read).
PATIENCE_SECONDS = 2.5


@dataclass(frozen=True)
class Pod:
    """One pod of the job as last seen.

    `failures` counts how often its containers have ended badly so far, whether or not the kubelet has already
    started them again. `sandbox` false: its sandbox has died under it, and all in it with it, and the kubelet is
    about to make a new one. `broken`: its main container has failed for good (restartPolicy Never), although a side
    container may hold the pod. `complaint` is why it has no address or does not run, in the cluster's own words.
    `ips` is the address list that it was given, comma-separated (interned: all pods of a job share one string).
    `owner` is the job's uid, `version` the resourceVersion of this view. `placed` is when it got its node.
    `node_lost`: the cluster has given its node up, and deleted it; `gone_by` is when its grace period is over.
    `labelled` false: somebody has changed the labels by which its service and its job's autoscaler find it.
    `gated`: its gate runs.
    """

    rank: int
    name: str
    uid: str
    node: str = ""
    ip: str = ""
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    scheduled: bool = False
    disrupted: bool = False
    node_lost: bool = False
    sandbox: bool = True
    broken: bool = False
    idle: bool = False
    succeeded: bool = False
    failures: int = 0
    ending: Ending | None = None
    complaint: str = ""
    ips: str = ""
    epoch: int = 0
    template_hash: str = ""
    ending_soon: bool = False
    created: str = ""
    gone_by: str = ""
    placed: str = ""
    owner: str = ""
    version: str = ""
    labelled: bool = True
    gated: bool = False

    @property
    def failed(self) -> bool:
        return (self.phase == "Failed" or self.broken) and not self.succeeded

    @property
    def finished(self) -> bool:
        return self.idle or self.phase in ("Succeeded", "Failed")


class Refused(StrEnum):
    """Why the apiserver did not do what was asked, by what helps."""

    TAKEN = "Taken"  # somebody else's object has the name
    TERMINATING = "Terminating"  # a namesake is on its way out: wait
    REJECTED = "Rejected"  # 400, 422: wrong as it is written
    FORBIDDEN = "Forbidden"  # 403: heals when the missing thing comes
    UNAVAILABLE = "Unavailable"  # 429, 5xx, no connection


@dataclass(frozen=True)
class Refusal:
    """The apiserver's last "no" to the creation of one object, with its own words, and when to ask again."""

    why: Refused
    message: str
    retry_at: datetime
    attempts: int = 1


@dataclass(frozen=True)
class Creation:
    """How often this operator has created a pod of this name lately, and when it last did."""

    count: int
    at: datetime


@dataclass(frozen=True)
class Observed:
    """Everything that one pass decides on, besides the job itself.

    `pods` maps a rank to its pod, `refusals` a kind and name ("pod/x-0", "service/x") to the last refusal,
    `creations` a pod's name to how often it was created lately, and `warnings` a pod's uid to the newest warning
    event about it. `given_back` are the names of pods that gave their node back for a lower rank. `told` maps
    the uid of a pod at its gate to when its list, or the last reminder, was seen on it. The last five live in the
    operator's memory only: a new operator learns them again.
    """

    pods: Mapping[int, Pod] = field(default_factory=dict)
    service: bool = False
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    creations: Mapping[str, Creation] = field(default_factory=dict)
    given_back: frozenset[str] = frozenset()
    told: Mapping[str, datetime] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """A service of the operator's: only its existence matters."""

    name: str
    uid: str
    owner: str
    version: str = ""


def service(body: Body) -> Service:
    """Read one service."""
    meta = body["metadata"]
    return Service(meta["name"], meta.get("uid", ""), _owner(meta).get("uid", ""), meta.get("resourceVersion", ""))


def namesake(body: Body, job: str, uid: str) -> Refused | None:
    """What the object is that has a name we wanted; None: our own, which the watch has not shown yet.

    The leftovers of a deleted job of the same name are on their way out (the garbage collector follows within
    seconds), as is everything that is being deleted: `kubectl delete` and `apply` at once is what everyone does.
    """
    meta = body["metadata"]
    owner = _owner(meta)
    if meta.get("deletionTimestamp"):
        return Refused.TERMINATING
    if owner.get("uid") == uid:
        return None
    leftover = owner.get("kind") == names.KIND and owner.get("name") == job
    return Refused.TERMINATING if leftover else Refused.TAKEN


def puzzling(pods: Iterable[Pod], now: datetime) -> tuple[Pod, ...]:
    """The pods of which only an event can say what they wait for: on a node for a while, silent, no address."""
    return tuple(p for p in pods if p.scheduled and not p.ip and not p.complaint and age(p, now) > PATIENCE_SECONDS)


def pod(body: Body) -> Pod:
    """Read one pod.

    The rank comes from the computed name JOB-RANK, never from a label, which anyone can write; -1 is none.
    """
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    annotations = meta.get("annotations") or {}
    owner = _owner(meta)
    main = containers.named(status, main_name(spec))
    return Pod(
        rank=_rank(meta["name"], owner.get("name", "")),
        name=meta["name"],
        uid=meta.get("uid", ""),
        node=spec.get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=status.get("phase") or "Pending",
        ready=_is(status, "Ready"),
        deleting=bool(meta.get("deletionTimestamp")),
        scheduled=bool(spec.get("nodeName")),
        disrupted=_disrupted(status),
        node_lost=_condition(status, "DisruptionTarget").get("reason") == "DeletionByTaintManager",
        succeeded=_succeeded(meta, status, main),
        sandbox=not _sandbox_died(status),
        broken=spec.get("restartPolicy") == "Never" and bool(containers.exit_code(main)),
        idle=containers.all_ended(status, spec.get("restartPolicy") or ""),
        failures=containers.failures(status, main),
        ending=containers.ending(status, main),
        complaint=containers.complaint(status),
        ips=sys.intern(annotations.get(names.ANNOTATION_IPS, "")),
        epoch=_number(annotations.get(names.ANNOTATION_EPOCH)),
        template_hash=annotations.get(names.ANNOTATION_TEMPLATE, ""),
        ending_soon=spec.get("activeDeadlineSeconds") == END_SECONDS,
        created=meta.get("creationTimestamp") or "",
        gone_by=meta.get("deletionTimestamp") or "",
        placed=_since(status, "PodScheduled"),
        owner=owner.get("uid", ""),
        version=meta.get("resourceVersion", ""),
        labelled=_labelled(meta, owner.get("name", "")),
        gated=any(
            c.get("name") == names.GATE_CONTAINER and _runs(c) for c in status.get("initContainerStatuses") or ()
        ),
    )


def _runs(container: Body) -> bool:
    return "running" in (container.get("state") or {})


def _labelled(meta: Body, job: str) -> bool:
    labels = meta.get("labels") or {}
    return labels.get(names.LABEL_JOB) == job and labels.get(names.LABEL_RANK) == meta["name"].rpartition("-")[2]


def _owner(meta: Body) -> Body:
    owners: Sequence[Body] = meta.get("ownerReferences") or ()
    return next((o for o in owners if o.get("controller")), {})


def _rank(name: str, job: str) -> int:
    prefix, _, rank = name.rpartition("-")
    return _number(rank) if prefix == job and str(_number(rank)) == rank else -1


def since(time: str, now: datetime) -> float | None:
    """Seconds since a time as Kubernetes writes it; None where it is none."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except ValueError:
        return None


def age(pod: Pod, now: datetime) -> float:
    """Seconds since the pod was created."""
    return since(pod.created, now) or 0.0


def main_name(spec: Body) -> str:
    """The name of the main container: di-container, else the first."""
    given = [c.get("name", "") for c in spec.get("containers") or ()]
    return names.MAIN_CONTAINER if names.MAIN_CONTAINER in given else next(iter(given), "")


def _number(text: Any) -> int:
    """A number of ours in text that anybody can edit: what is none, or too large for the status, counts as 0."""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 16 else 0


def _is(status: Body, condition: str) -> bool:
    return _condition(status, condition).get("status") == "True"


def _since(status: Body, condition: str) -> str:
    """When the condition became True; "" while it is not."""
    found = _condition(status, condition)
    return str(found.get("lastTransitionTime") or "") if found.get("status") == "True" else ""


def _condition(status: Body, type_: str) -> Body:
    return next((c for c in status.get("conditions") or () if c.get("type") == type_), {})


def _succeeded(meta: Body, status: Body, main: Body) -> bool:
    """The main container exited 0 by itself: sidecars that never end do not count, nor does an end on demand."""
    if meta.get("deletionTimestamp") or _disrupted(status):
        return False
    return status.get("phase") == "Succeeded" or containers.exit_code(main) == 0


def _disrupted(status: Body) -> bool:
    reason = status.get("reason") or ""
    return _is(status, "DisruptionTarget") or reason.startswith("OutOf") or reason in DISRUPTIONS


def _sandbox_died(status: Body) -> bool:
    """The kubelet reports the containers that died with a sandbox before it makes the new one, with the old address."""
    return status.get("phase") == "Running" and _condition(status, "PodReadyToStartContainers").get("status") == "False"
