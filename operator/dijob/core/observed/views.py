"""Frozen views of the current state, with just the fields that the plan needs (parse.py creates
them from raw objects).

The operator keeps a view of each pod of each job in memory, so a view holds little, and strings
that many pods share are interned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from dijob.api.problems import Problem
from dijob.core.addresses import ListCopy
from dijob.core.observed.containers import Containers
from dijob.core.observed.progress import JobProgress
from dijob.core.observed.queue_views import QueueView
from dijob.core.observed.termination import NOT_DELETED, Termination
from dijob.names import Engine

# The prefix of the complaint about a pod with scheduling gates.
GATED = "SchedulingGated"
# Used instead of a revision in Observed.list_seen. Revisions start at 1.
ARRIVAL = 0


@dataclass(frozen=True)
class MadeWith:
    """What a pod was created with.

    `main` is the name of its main container ("": unknown). `image` is the image of that container
    ("": the image proves nothing about other pods, see made.py). `reads` are the operator's
    annotations that the pod's spec refers to. The operator writes these annotations together with a
    peer list. `restartable`: its launcher can restart the process in place. `confirmable`: after a
    failure, its launcher waits until the failure is counted. `grace` is how many seconds its
    launcher waits for the process to exit. `has_others`: it has containers other than the main one.
    `sidecars`: some containers always restart. `probed` are the containers that the kubelet kills
    if a probe or a postStart hook fails. `foreign`: it lacks what every pod of a rank has, so the
    operator cannot have created it. `image_volumes` contains an (image, name) pair for each image
    volume. `channel_key` is the key with which its launcher and the operator authenticate each
    other; "": the pod has a gate instead. `engine` is the engine that its job had when the pod was
    created, and `group` is the name of its PodGroup ("": it has none).

    Three fields describe the current state: `shape` is the shape of its containers (shape.py; "":
    unknown). `labelled` is false if somebody has changed the label by which the job's Service and
    autoscaler select the pod. `rank_label` is the rank in its label ("": unknown).
    """

    foreign: bool = False
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
    image_volumes: tuple[tuple[str, str], ...] = ()
    channel_key: str = ""
    rank_label: str = ""
    engine: str = ""
    group: str = ""


@dataclass(frozen=True)
class Placement:
    """Where a pod is, and what the cluster has reported about it or done to it.

    `placed` is when it was bound to its node. `unacknowledged` is the "node x" or "scheduler x"
    that has not reported on it yet. `prerequisites` are the objects that must exist before the
    pod's scheduler considers the pod. `silent_since` is when its node became unreachable ("": the
    node is reachable). `eviction_seconds` is the number of seconds after which Kubernetes then
    evicts the pod (None: never). `disrupted`: the cluster has terminated it, or has selected it for
    termination. `node_lost`: the cluster has deleted it because its node is lost. If it is being
    deleted, `termination` says why it still exists. `conditions` are the pod's conditions as text,
    such as "DisruptionTarget=True". The conditions that every pod has are left out.
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
class Unready:
    """What keeps a pod from being Ready.

    `text` is the message. `container` is the container that is not ready ("": a readiness gate is
    the cause). `probe` is the kind of the probe that has not succeeded ("": the cause is not a
    probe).
    `since` is when this began ("": the status does not show it).
    """

    text: str
    container: str = ""
    probe: str = ""
    since: str = ""


@dataclass(frozen=True)
class Pod:
    """One pod of the job as last observed.

    `owner` is the key of its job (names.owner_key; "": none), `version` the resourceVersion of this
    view. `complaint` is the reason that the cluster reports if the pod has no address or does not
    run. `unmountable` is set only if the pod must be re-created with an init container. It is the
    error that the pod's node reported when it failed to mount the launcher's image. If something
    other than the pod's program keeps the pod from being Ready, `unready` says what.
    `unready_since` is when the pod ceased to be Ready ("": it is Ready, or has no channel).
    `ending_soon`: the operator has set its activeDeadlineSeconds. This terminates the pod without
    deleting it, so its logs remain. `copy` is its copy of the peer list.
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
    unmountable: str = ""
    unready: Unready | None = None
    unready_since: str = ""
    copy: ListCopy = field(default_factory=ListCopy)
    containers: Containers = field(default_factory=Containers)
    made: MadeWith = MadeWith()
    placement: Placement = Placement()

    @property
    def scheduled(self) -> bool:
        """Whether the pod is bound to a node."""
        return bool(self.placement.node)

    @property
    def seeks_node(self) -> bool:
        """Whether the scheduler has found no node for the pod."""
        return not (self.scheduled or self.deleting) and bool(self.complaint)

    @property
    def lacks_room(self) -> bool:
        """Whether the pod would use capacity that other pods release. A pod with scheduling gates
        would not.
        """
        return self.seeks_node and not self.complaint.startswith(GATED)

    @property
    def is_starting(self) -> bool:
        """Whether the pod has no address yet, and no reported problem explains why."""
        return not (self.ip or self.deleting or self.complaint) and self.phase == "Pending"

    @property
    def has_arrived(self) -> bool:
        """Whether the pod can join a peer list: it has an address, and its program can start."""
        return bool(self.ip) and not self.containers.unstarted

    @property
    def has_started(self) -> bool:
        """Whether the pod's main container has ever started."""
        return bool(self.containers.started or self.containers.ended or self.containers.restarts)

    @property
    def is_idle(self) -> bool:
        """Whether the pod's program has never started, and no other container of the template is
        running. Such a pod can be deleted with a short grace period.
        """
        all_before = bool(self.containers.gate_started)
        return not (self.has_started or self.made.sidecars) and (
            self.containers.unstarted or all_before
        )

    @property
    def has_list(self) -> bool:
        """Whether the pod has a peer list."""
        return bool(self.copy.address_list.text)

    @property
    def recognized(self) -> bool:
        """Whether the pod's labels are still as the operator wrote them."""
        return self.made.labelled and self.made.rank_label in ("", str(self.rank))

    @property
    def failed(self) -> bool:
        """Whether the pod has ended for good and its rank has not succeeded. The pod's phase can
        nevertheless be Succeeded: a program that exits 0 because its pod is terminated has not
        succeeded.
        """
        over = self.phase in ("Failed", "Succeeded") or self.containers.broken
        return over and not self.containers.succeeded

    @property
    def finished(self) -> bool:
        return self.containers.all_ended or self.phase in ("Succeeded", "Failed")


class RejectionCause(StrEnum):
    """The kinds of rejections by the API server; each has its own remedy."""

    TAKEN = "Taken"  # a foreign object has the name
    TERMINATING = "Terminating"  # an object of the same name is still being deleted
    OUTDATED = "Outdated"  # the job's own object has an old spec, and must not be changed
    REJECTED = "Rejected"  # 400, 422: the object is invalid
    FORBIDDEN = "Forbidden"  # 403: a missing object, a quota or a policy
    UNAVAILABLE = "Unavailable"  # 429, 5xx, no connection


@dataclass(frozen=True)
class ApiRejection:
    """The API server's last rejection of one creation or change.

    It has the message, the time of the next retry, and the time of the first rejection of the same
    kind.
    """

    why: RejectionCause
    message: str
    retry_at: datetime
    attempts: int = 1
    since: datetime | None = None

    @property
    def of_quota(self) -> bool:
        """Whether a quota is exhausted. Other jobs may release capacity in that quota."""
        return self.why is RejectionCause.FORBIDDEN and "exceeded quota" in self.message


@dataclass(frozen=True)
class Creation:
    """How often this operator has recently created a pod of this name, and when it last did so.

    `rejected` says why a node did not admit the last pod ("": the pod was admitted).
    """

    count: int
    at: datetime
    rejected: str = ""


@dataclass(frozen=True)
class Route:
    """The pods and ports that a Service targets. `headless`: its name resolves to the pods.
    `external`: it is an alias for another host. `unready`: pods that are not Ready are included.
    `ports` are (port, target) pairs.
    """

    selector: frozenset[tuple[str, str]] = frozenset()
    headless: bool = False
    external: bool = False
    unready: bool = False
    ports: frozenset[tuple[int, int | str]] = frozenset()

    def differs_from(self, wanted: "Route") -> tuple[str, ...]:
        """Return the fields of the Service's spec that differ from the wanted ones. Ports that were
        added do no harm.
        """
        same = {
            "selector": self.selector == wanted.selector,
            "clusterIP": self.headless == wanted.headless,
            "type": self.external == wanted.external,
            "publishNotReadyAddresses": self.unready >= wanted.unready,
            "ports": wanted.ports <= self.ports,
        }
        return tuple(field for field, is_same in same.items() if not is_same)


@dataclass(frozen=True)
class Child:
    """An object of a job, other than a pod. For most kinds, only the existence of the object
    matters. `digest` is the digest of a NetworkPolicy's spec (policies.py); "" for other kinds.
    `route` is the route of a Service; None for other kinds.
    """

    name: str
    uid: str
    owner: str
    version: str = ""
    digest: str = ""
    route: Route | None = None


@dataclass(frozen=True)
class Isolation:
    """The NetworkPolicies of the job: whether its ranks need one, and the existing ones by name.
    The Redis server always has a policy. But the operator watches policies only if each job gets a
    policy for its ranks (the option `isolates`).
    """

    wanted: bool = False
    policies: Mapping[str, Child] = field(default_factory=dict)


@dataclass(frozen=True)
class SchedulingObject:
    """An engine's object for the job, such as a PodGroup. `deleting`: it is being deleted, and
    exists until its last pod has ended.
    """

    name: str
    uid: str
    owner: str
    spec: Mapping[str, Any] = field(default_factory=dict)
    deleting: bool = False


@dataclass(frozen=True)
class EngineView:
    """The job's engine and the engine's object. `served`: the cluster serves the engine's API.
    `known`: the operator has read the object. `found` is the object (None: it does not exist).
    """

    engine: Engine = Engine.NONE
    served: bool = True
    known: bool = False
    found: SchedulingObject | None = None


@dataclass(frozen=True)
class BudgetView:
    """A PodDisruptionBudget of the job, as the operator last read or wrote it."""

    name: str
    uid: str
    spec: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Throttling:
    """How slow the API server is now (pace.py): `latency` is how many seconds a write takes, and
    `reminders` is how many kubelets may be reminded.
    """

    latency: float = 0.0
    reminders: int = 1


@dataclass(frozen=True)
class Room:
    """What is known about the capacity of the cluster.

    `released` are the names of pods that were deleted to free a node for a lower rank (from the
    operator's memory). `contended` is true if a pod of this job and a pod of another job wait for a
    node. `foreign_pods` is true if a pod that is not part of any job waits for a node.
    """

    released: frozenset[str] = frozenset()
    contended: bool = False
    foreign_pods: bool = False

    @property
    def wanted(self) -> bool:
        """Whether other pods could use the capacity that a job releases."""
        return self.contended or self.foreign_pods


@dataclass(frozen=True)
class Observed:
    """Everything that the decisions of a reconciliation are based on, apart from the job itself.

    From the watches: `pods` maps ranks to pods. `unranked` are the job's pods without a rank (its
    own Redis server, and pods of tasks that had other names before a suspension). `existing` names
    the other watched objects of the job, in the form "service/x". `routes` maps the names of the
    job's Services to their routes.

    From the operator's memory (controller/observe/memory.py), which a new operator has to rebuild:
    `rejections` maps an object ("pod/x-0", "service/x") or a change (changes.py) to its last
    rejection. `creations` maps the name of a pod to its recent creations, and `warnings` maps the
    uid of a pod to its newest warning event. `room` is what is known about the cluster's capacity.
    `first_seen` is when the job was first reconciled (None: now). The keys of `list_seen` are pairs
    of a pod's uid and the revision of the peer list that the pod must act on. The values are the
    times when the list was first seen on the pod. Each pod also has an entry with ARRIVAL in place
    of a revision. Its value is the time when the operator first saw that the pod had arrived.
    `reminded` maps the same keys to the time when the pod's kubelet was last reminded of the list.
    `published` maps the uid of a pod to the newest revision that this operator has written to it.

    From settings and measurements: `notes` are the warnings about parts of the job that do not fit
    the settings. `isolation` says which NetworkPolicies the job needs and has. `throttling` limits
    deferrable writes (pace.py). `scheduling` is the job's engine, and the engine's object as it was
    last read. `queue` is what is known about the job's queue, if its engine is Kueue. `budgets`
    maps the name of each PodDisruptionBudget of the job to the object (None: it does not exist). If
    this map lacks a name, that budget has not been read yet.

    `keeps_history` says whether the job is recorded before it is deleted.

    From the launchers: `progress` is the progress of a job with stallSeconds.
    """

    pods: Mapping[int, Pod] = field(default_factory=dict)
    unranked: tuple[Pod, ...] = ()
    existing: frozenset[str] = frozenset()
    routes: Mapping[str, Route] = field(default_factory=dict)
    rejections: Mapping[str, ApiRejection] = field(default_factory=dict)
    creations: Mapping[str, Creation] = field(default_factory=dict)
    room: Room = field(default_factory=Room)
    first_seen: datetime | None = None
    list_seen: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    reminded: Mapping[tuple[str, int], datetime] = field(default_factory=dict)
    published: Mapping[str, int] = field(default_factory=dict)
    warnings: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Problem, ...] = ()
    isolation: Isolation = Isolation()
    throttling: Throttling = Throttling()
    scheduling: EngineView = EngineView()
    queue: QueueView = field(default_factory=QueueView)
    budgets: Mapping[str, BudgetView | None] = field(default_factory=dict)
    progress: JobProgress = field(default_factory=JobProgress)
    keeps_history: bool = False

    def unranked_pod(self, name: str) -> Pod | None:
        """Return the pod of this name among those without a rank."""
        return next((pod for pod in self.unranked if pod.name == name), None)

    def run_of(self, name: str) -> str:
        """Return the current run of an unranked pod's main container, as uid/restarts; "" if the
        container is not running.
        """
        pod = self.unranked_pod(name)
        return (
            f"{pod.uid}/{pod.containers.restarts}"
            if pod and pod.containers.started and not pod.deleting
            else ""
        )

    @property
    def all_pods(self) -> tuple[Pod, ...]:
        """All pods of the job: first those with a rank, in rank order."""
        return (*(pod for _, pod in sorted(self.pods.items())), *self.unranked)


def seconds_since(time: str, now: datetime) -> float | None:
    """Return the seconds since a time in Kubernetes' format; None if it is not a valid time."""
    try:
        return (now - datetime.fromisoformat(time)).total_seconds()
    except ValueError:
        return None


def pod_age(pod: Pod, now: datetime) -> float:
    """Return the seconds since the pod was created; at least 0, since the API server's clock may be
    ahead of ours.
    """
    return max(0.0, seconds_since(pod.placement.created, now) or 0.0)
