"""What is there: frozen views that hold just what the plan asks about (parse.py makes them of raw
objects).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from dijob.api.problems import Problem
from dijob.core.addresses import ListCopy
from dijob.core.observed.containers import Containers
from dijob.core.observed.room import Room
from dijob.core.observed.termination import NOT_DELETED, Termination

# What the complaint about a pod with scheduling gates begins with.
GATED = "SchedulingGated"
# In Observed.list_seen, in the place of a list's number: lists are counted from 1.
ARRIVAL = 0


@dataclass(frozen=True)
class MadeWith:
    """What a pod was made with.

    `main` is the name of its main container ("": unknown), `image` that container's image ("": each
    start asks the registry for it, also where the node has it); `reads` are the annotations of the
    operator's that its spec names: those are to be written with a list. `restartable`: its launcher
    can start its process again in place; `confirmable`: after a failure it waits until that is
    counted; `grace` is how long it gives the process to end, in
    seconds. `has_others`: it has other containers than the main one; `sidecars`: some always start
    again; `probed` are those that a failing probe ends. Three of them tell of now:
    `shape` is that of its containers (shape.py; "": unknown);
    `labelled` false, somebody has changed the label by which its service and its job's autoscaler
    find it; `rank_label` is the rank that its label names ("": unknown).
    """

    template_hash: str = ""
    main: str = ""
    image: str = ""
    reads: frozenset[str] = frozenset()
    restartable: bool = False
    confirmable: bool = False
    grace: int = 30
    has_others: bool = False
    sidecars: bool = False
    probed: frozenset[str] = frozenset()
    shape: str = ""
    labelled: bool = True
    rank_label: str = ""


@dataclass(frozen=True)
class Placement:
    """Where a pod is, and what the cluster does with it there.

    `placed` is when it got its node. `unacknowledged`: the "node x" or "scheduler x" that has not
    reported on it yet; `prerequisites` are the objects without which that scheduler does not
    consider it. `silent_since` is when its node fell silent ("": it did not), `eviction_seconds`
    how long after that Kubernetes evicts it (None: never). `disrupted`: the cluster has ended it,
    or has chosen it to go. `node_lost`: the cluster has given its node up, and deleted it.
    `termination` is why it is still there, if it is being deleted. `conditions` are those that not
    every pod has, as "DisruptionTarget=True".
    """

    created: str = ""
    node: str = ""
    placed: str = ""
    unacknowledged: str = ""
    prerequisites: tuple[str, ...] = ()
    silent_since: str = ""
    eviction_seconds: int | None = None
    disrupted: bool = False
    node_lost: bool = False
    termination: Termination = NOT_DELETED
    conditions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pod:
    """One pod of the job as last seen.

    `owner` is the job that it belongs to (names.owner_key; "": none), `version` the resourceVersion
    of this view. `complaint` is why it has no address or does not run, in the cluster's own words.
    `ending_soon`: it has the deadline that ends it and keeps its logs. `copy` is the address list
    that it was given.
    """

    rank: int
    name: str
    uid: str
    owner: str = ""
    version: str = ""
    ip: str = ""
    phase: str = "Pending"
    ready: bool = False
    deleting: bool = False
    ending_soon: bool = False
    complaint: str = ""
    copy: ListCopy = field(default_factory=ListCopy)
    containers: Containers = field(default_factory=Containers)
    made: MadeWith = MadeWith()
    placement: Placement = Placement()

    @property
    def scheduled(self) -> bool:
        """Whether it has a node."""
        return bool(self.placement.node)

    @property
    def seeks_node(self) -> bool:
        """Whether the scheduler has found no node for it."""
        return not (self.scheduled or self.deleting) and bool(self.complaint)

    @property
    def lacks_room(self) -> bool:
        """Whether it would take room that others give back: a gated pod would not."""
        return self.seeks_node and not self.complaint.startswith(GATED)

    @property
    def has_arrived(self) -> bool:
        """Whether an address list may have it: it has an address, and its program can start."""
        return bool(self.ip) and not self.containers.unstarted

    @property
    def has_started(self) -> bool:
        """Whether its main container has ever started."""
        return bool(self.containers.started or self.containers.ended or self.containers.restarts)

    @property
    def is_idle(self) -> bool:
        """Whether its program has never started, and no other container that comes before runs."""
        all_before = bool(self.containers.gate_started)
        return not (self.has_started or self.made.sidecars) and (
            self.containers.unstarted or all_before
        )

    @property
    def has_list(self) -> bool:
        """Whether it has been given an address list."""
        return bool(self.copy.address_list.text)

    @property
    def recognized(self) -> bool:
        """Whether its labels are as we have written them."""
        return self.made.labelled and self.made.rank_label in ("", str(self.rank))

    @property
    def failed(self) -> bool:
        """Whether nothing starts in it any more, and its rank has not succeeded. The phase is
        Succeeded if its program exits 0 as it is ended for another reason.
        """
        over = self.phase in ("Failed", "Succeeded") or self.containers.broken
        return over and not self.containers.succeeded

    @property
    def finished(self) -> bool:
        return self.containers.all_ended or self.phase in ("Succeeded", "Failed")


class Refused(StrEnum):
    """Why the apiserver did not do what was asked, by what helps."""

    TAKEN = "Taken"  # somebody else's object has the name
    TERMINATING = "Terminating"  # a namesake is on its way out: wait
    OUTDATED = "Outdated"  # the job's own, from an older spec, and there is no right to change it
    REJECTED = "Rejected"  # 400, 422: wrong as it is written
    FORBIDDEN = "Forbidden"  # 403: heals when the missing thing comes
    UNAVAILABLE = "Unavailable"  # 429, 5xx, no connection


@dataclass(frozen=True)
class Refusal:
    """The apiserver's last "no" to the creation or a change of one object, in its own words, when
    to ask again, and since when it has been the same one.
    """

    why: Refused
    message: str
    retry_at: datetime
    attempts: int = 1
    since: datetime | None = None

    @property
    def of_quota(self) -> bool:
        """Whether a quota has no room: other jobs may give it back."""
        return self.why is Refused.FORBIDDEN and "exceeded quota" in self.message


@dataclass(frozen=True)
class Creation:
    """How often this operator has created a pod of this name lately, when it last did, and why a
    node has not admitted the last one ("": none has refused it).
    """

    count: int
    at: datetime
    rejected: str = ""


@dataclass(frozen=True)
class Child:
    """An object of a job of which little matters but its existence, as a service. `digest` is of a
    network policy's spec (policies.py); "" for other kinds.
    """

    name: str
    uid: str
    owner: str
    version: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Isolation:
    """The NetworkPolicies of the job, by name: whether its ranks are to have one, and what there
    is. That of its Redis server always exists, but policies are watched only if jobs have their
    own.
    """

    wanted: bool = False
    policies: Mapping[str, Child] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """Everything that one pass decides on, besides the job itself.

    From the watches: `pods` maps a rank to its pod; `unranked` are pods of the job that have no
    rank (its own Redis server's; those of tasks that had other names before it was suspended);
    `existing` are its other objects that are watched, as "service/x".

    From the operator's memory (shell/memory.py), so that a new operator learns it again: `refusals`
    maps a kind and name ("pod/x-0", "service/x") or a change (changes.py) to the last refusal;
    `creations` a pod's name to how often it was created lately; `warnings` a pod's uid to the
    newest warning event about it. `room` is about nodes. `first_seen` is when the first pass over
    the job was; None: now.
    `list_seen` maps the uid of a pod that is to act on a list, and the list's number, to when that
    list was first seen on the pod, and the uid of any pod, and ARRIVAL, to when it was first seen
    to have arrived; `reminded` maps the same to when its kubelet was last reminded of the list.
    `published` maps a pod's uid to the number of the newest list
    that this operator has written on it.

    From its settings and its measurements: `notes` are problems of the job with these settings;
    `isolation` is about its NetworkPolicy;
    `latency` is how long a write takes now, in seconds; `reminder_budget` is how many kubelets may
    be reminded now (pace.py).
    """

    pods: Mapping[int, Pod] = field(default_factory=dict)
    unranked: tuple[Pod, ...] = ()
    existing: frozenset[str] = frozenset()
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    creations: Mapping[str, Creation] = field(default_factory=dict)
    room: Room = field(default_factory=Room)
    first_seen: datetime | None = None
    list_seen: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    reminded: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Problem, ...] = ()
    isolation: Isolation = Isolation()
    latency: float = 0.0
    reminder_budget: int = 1

    def unranked_pod(self, name: str) -> Pod | None:
        """The pod of this name that no rank has."""
        return next((pod for pod in self.unranked if pod.name == name), None)

    def run_of(self, name: str) -> str:
        """One run of the main container of a pod that no rank has, as uid/restarts; "" while it
        does not run.
        """
        pod = self.unranked_pod(name)
        return (
            f"{pod.uid}/{pod.containers.restarts}"
            if pod and pod.containers.started and not pod.deleting
            else ""
        )

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        """All pods of the job, those with a rank first, in rank order."""
        return (*(pod for _, pod in sorted(self.pods.items())), *self.unranked)


def since(time: str, now: datetime) -> float | None:
    """Seconds since a time as Kubernetes writes it; None where it is none."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except ValueError:
        return None


def age(pod: Pod, now: datetime) -> float:
    """Seconds since the pod was created; 0 also where the apiserver's clock is ahead of ours."""
    return max(0.0, since(pod.placement.created, now) or 0.0)
