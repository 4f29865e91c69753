"""What is there: raw pods and services become frozen views that hold just what the plan asks about."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from dijob import names

Body = Mapping[str, Any]

# Reasons of a pod's status that are the cluster's doing, not the program's (design 6.3).
DISRUPTIONS = ("UnexpectedAdmissionError", "NodeAffinity", "NodeShutdown", "Terminated", "Evicted", "NodeLost")
# The deadline that ends a crash-looping pod and keeps its logs: Failed after 1.6 s (design 6.3).
END_SECONDS = 1
# A pod that has said nothing for this long after its creation is asked after (its events are read).
PATIENCE_SECONDS = 2.5
WAITING_IS_FINE = ("PodInitializing", "ContainerCreating", "")


@dataclass(frozen=True)
class Ending:
    """How a container ended last: exit code, signal (0: none), reason, message, finish time as written."""

    exit_code: int
    signal: int
    reason: str
    message: str


@dataclass(frozen=True)
class Pod:
    """One pod of the job as last seen.

    `failures` counts how often its containers have ended badly so far, whether or not the kubelet has already
    started them again. `complaint` is why it has no address or does not run, in the cluster's own words. `ips` is the
    address list that it was given, comma-separated (interned: all pods of a job share one string). `owner` is the
    job's uid, `version` the resourceVersion of this view.
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
    succeeded: bool = False
    failures: int = 0
    ending: Ending | None = None
    complaint: str = ""
    ips: str = ""
    epoch: int = 0
    template_hash: str = ""
    num_nodes: int = 0
    ending_soon: bool = False
    created: str = ""
    owner: str = ""
    version: str = ""

    @property
    def failed(self) -> bool:
        return self.phase == "Failed" and not self.succeeded

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


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
    event about it. The last three live in the operator's memory only: a new operator learns them again.
    """

    pods: Mapping[int, Pod] = field(default_factory=dict)
    service: bool = False
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    creations: Mapping[str, Creation] = field(default_factory=dict)
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
    return tuple(p for p in pods if p.scheduled and not p.ip and not p.complaint and _age(p, now) > PATIENCE_SECONDS)


def pod(body: Body) -> Pod:
    """Read one pod.

    The rank comes from the computed name JOB-RANK, never from a label, which anyone can write; -1 is none.
    """
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    annotations = meta.get("annotations") or {}
    owner = _owner(meta)
    main = _status_of(status.get("containerStatuses") or (), main_name(spec))
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
        succeeded=_succeeded(meta, status, main),
        failures=_failures(status),
        ending=_ending(main),
        complaint=_complaint(status),
        ips=sys.intern(annotations.get(names.ANNOTATION_IPS, "")),
        epoch=_number(annotations.get(names.ANNOTATION_EPOCH)),
        template_hash=annotations.get(names.ANNOTATION_TEMPLATE, ""),
        num_nodes=_number(annotations.get(names.ANNOTATION_NUM_NODES)),
        ending_soon=spec.get("activeDeadlineSeconds") == END_SECONDS,
        created=meta.get("creationTimestamp") or "",
        owner=owner.get("uid", ""),
        version=meta.get("resourceVersion", ""),
    )


def _owner(meta: Body) -> Body:
    owners: Sequence[Body] = meta.get("ownerReferences") or ()
    return next((o for o in owners if o.get("controller")), {})


def _rank(name: str, job: str) -> int:
    prefix, _, rank = name.rpartition("-")
    return int(rank) if prefix == job and rank.isdigit() and str(int(rank)) == rank else -1


def _age(pod: Pod, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(pod.created)).total_seconds()
    except ValueError:
        return 0.0


def main_name(spec: Body) -> str:
    """The name of the main container: di-container, else the first."""
    containers = [c.get("name", "") for c in spec.get("containers") or ()]
    return names.MAIN_CONTAINER if names.MAIN_CONTAINER in containers else next(iter(containers), "")


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdigit() else 0


def _is(status: Body, condition: str) -> bool:
    return any(c.get("type") == condition and c.get("status") == "True" for c in status.get("conditions") or ())


def _status_of(statuses: Iterable[Body], name: str) -> Body:
    return next((s for s in statuses if s.get("name") == name), {})


def _succeeded(meta: Body, status: Body, main: Body) -> bool:
    """The main container exited 0 by itself: sidecars that never end do not count, nor does an end on demand."""
    if meta.get("deletionTimestamp") or _disrupted(status):
        return False
    ended = (main.get("state") or {}).get("terminated")
    return status.get("phase") == "Succeeded" or (ended is not None and ended.get("exitCode") == 0)


def _disrupted(status: Body) -> bool:
    reason = status.get("reason") or ""
    return _is(status, "DisruptionTarget") or reason.startswith("Outof") or reason in DISRUPTIONS


def _failures(status: Body) -> int:
    """How often containers ended badly: restarts of the main and side containers, and of init containers that fail.

    The gate never counts, nor do init containers that merely ran again because the sandbox was made anew.
    """
    count = sum(_container_failures(c) for c in status.get("containerStatuses") or ())
    for container in status.get("initContainerStatuses") or ():
        if container.get("name") != names.GATE_CONTAINER and _down(container):
            count += _container_failures(container)
    return max(count, 1) if status.get("phase") == "Failed" else count


def _container_failures(container: Body) -> int:
    return int(container.get("restartCount") or 0) + (1 if _down(container) else 0)


def _down(container: Body) -> bool:
    """Whether the container has ended badly and has not been started again yet."""
    state = container.get("state") or {}
    ended = state.get("terminated")
    if ended is None and "waiting" in state:
        ended = (container.get("lastState") or {}).get("terminated")
    return ended is not None and ended.get("exitCode") != 0


def _ending(container: Body) -> Ending | None:
    state = container.get("state") or {}
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if not ended:
        return None
    code = int(ended.get("exitCode") or 0)
    signal = int(ended.get("signal") or 0) or (code - 128 if 128 < code < 160 else 0)
    return Ending(code, signal, ended.get("reason") or "", (ended.get("message") or "").strip())


def _complaint(status: Body) -> str:
    """Why the pod does not get on, in the cluster's own words; "" while nothing is wrong."""
    if status.get("phase") == "Failed":
        return _sentence(status.get("reason"), status.get("message"))
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _sentence(condition.get("reason"), condition.get("message"))
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((text for c in containers if (text := _container_complaint(c))), "")


def _container_complaint(container: Body) -> str:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    last = (container.get("lastState") or {}).get("terminated") or {}
    text = ""
    if waiting.get("reason", "") not in WAITING_IS_FINE:
        detail = last.get("message") if waiting.get("reason") == "CrashLoopBackOff" else waiting.get("message")
        text = _sentence(waiting.get("reason"), detail or waiting.get("message"))
    elif (ended := state.get("terminated")) and ended.get("exitCode") != 0:
        text = _sentence(ended.get("reason"), ended.get("message") or f"exit code {ended.get('exitCode')}")
    return f"container {container.get('name')}: {text}" if text else ""


def _sentence(reason: str | None, message: str | None) -> str:
    return ": ".join(part.strip() for part in (reason, message) if part and part.strip())
