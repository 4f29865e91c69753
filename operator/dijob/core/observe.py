"""What is there: frozen views that hold just what the plan asks about (raw.py makes them of raw objects)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from dijob.core.containers import Ending

# A pod that has said nothing for this long after its creation is asked after (its events are read).
PATIENCE_SECONDS = 2.5


@dataclass(frozen=True)
class Pod:
    """One pod of the job as last seen.

    `failures` counts how often its containers have ended badly so far, whether or not the kubelet has already
    started them again. `sandbox` false: its sandbox has died under it, and all in it with it, and the kubelet is
    about to make a new one. `broken`: its main container has failed for good (restartPolicy Never), although a side
    container may hold the pod. `complaint` is why it has no address or does not run, in the cluster's own words.
    `ips` is the address list that it was given, comma-separated (interned: all pods of a job share one string), and
    `told_ip` the address that it had then, where that is not in the list.
    `owner` is the job's uid, `version` the resourceVersion of this view. `placed` is when it got its node.
    `node_lost`: the cluster has given its node up, and deleted it; `gone_by` is when its grace period is over.
    `labelled` false: somebody has changed the labels by which its service and its job's autoscaler find it.
    `gated`: its gate runs. `restartable`: its launcher can start its process again in place. `renew_from` is the number
    of the first list that its process may have, `renewed` that of the list for which its process ended last (0: it
    ended for another reason). `started` and `ended` are when the main container started, and when it last ended.
    `grace` is how long it has to end, in seconds.
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
    told_ip: str = ""
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
    restartable: bool = False
    renew_from: int = 0
    renewed: int = 0
    started: str = ""
    ended: str = ""
    grace: int = 30

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
    event about it. `given_back` are the names of pods that gave their node back for a lower rank. `told` maps the uid
    of a pod that is to act on a list, and the list's number, to when that list was seen on it, `nudged` to when it was
    last reminded. The last six live in the operator's memory only: a new operator learns them again.
    """

    pods: Mapping[int, Pod] = field(default_factory=dict)
    service: bool = False
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    creations: Mapping[str, Creation] = field(default_factory=dict)
    given_back: frozenset[str] = frozenset()
    told: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    nudged: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Service:
    """A service of the operator's: only its existence matters."""

    name: str
    uid: str
    owner: str
    version: str = ""


@lru_cache(maxsize=256)
def addresses(ips: str) -> tuple[str, ...]:
    """An address list as it stands in an annotation, in rank order; () for "".

    Remembered: all pods of a job share one text, and each of 1,500 is asked for its entry in every pass.
    """
    return tuple(ips.split(",")) if ips else ()


def puzzling(pods: Iterable[Pod], now: datetime) -> tuple[Pod, ...]:
    """The pods of which only an event can say what they wait for: on a node for a while, silent, no address."""
    return tuple(p for p in pods if p.scheduled and not p.ip and not p.complaint and age(p, now) > PATIENCE_SECONDS)


def since(time: str, now: datetime) -> float | None:
    """Seconds since a time as Kubernetes writes it; None where it is none."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except ValueError:
        return None


def age(pod: Pod, now: datetime) -> float:
    """Seconds since the pod was created."""
    return since(pod.created, now) or 0.0
