"""Frozen views of Kueue's objects, which workloads.py creates from raw objects.

They show the Workload of a job, and what the operator must read to start the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

Body = Mapping[str, Any]
# If Kueue has moved the quota of a Workload to a larger Workload, the condition Finished of the
# smaller Workload has this reason.
REPLACED: Final = "WorkloadSliceReplaced"


@dataclass(frozen=True)
class Assignment:
    """What Kueue has assigned to a pod set: the number of pods, the ResourceFlavors, and whether
    Kueue chooses the nodes (topology-aware scheduling).
    """

    count: int
    flavors: tuple[str, ...] = ()
    by_topology: bool = False


@dataclass(frozen=True)
class Workload:
    """The Workload of a job.

    `digest` identifies the values from which the Workload was created (render/scheduling/kueue.py).
    `counts` and `reclaimable` map the names of pod sets to numbers of pods. `assigned` maps the
    names of pod sets to assignments; it is empty if there is no quota reservation. `updates` are
    the podSetUpdates of its admission checks. `past_seconds` is how long it ran in earlier
    admissions. `replaces` is the name of the smaller Workload that this one replaces when the job
    grows.
    """

    name: str
    uid: str
    owner: str
    # Left out of comparisons, because a new version without other changes does not matter to the
    # job.
    version: str = field(default="", compare=False)
    digest: str = ""
    queue: str = ""
    active: bool = True
    deleting: bool = False
    generation: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    assigned: Mapping[str, Assignment] = field(default_factory=dict)
    reclaimable: Mapping[str, int] = field(default_factory=dict)
    updates: tuple[Body, ...] = ()
    conditions: tuple[Body, ...] = ()
    past_seconds: int = 0
    replaces: str = ""

    def condition(self, type_: str) -> Body:
        """Return the condition of this type; {} if there is none."""
        return next((one for one in self.conditions if one.get("type") == type_), {})

    def is_true(self, type_: str) -> bool:
        """Whether the condition of this type is True."""
        return self.condition(type_).get("status") == "True"

    @property
    def reserves(self) -> bool:
        """Whether the Workload has a quota reservation."""
        return self.is_true("QuotaReserved")

    @property
    def evicted(self) -> bool:
        """Whether the job of the Workload must stop."""
        return not self.active or self.is_true("Evicted")

    @property
    def runs(self) -> bool:
        """Whether the job of the Workload may run."""
        admitted = self.reserves and self.is_true("Admitted") and bool(self.assigned)
        over = self.is_true("Finished") and not self.replaced
        return admitted and not (self.deleting or self.evicted or over)

    @property
    def replaced(self) -> bool:
        """Whether Kueue has moved the Workload's quota to a larger Workload that replaces it."""
        finished = self.condition("Finished")
        return finished.get("status") == "True" and finished.get("reason") == REPLACED

    @property
    def keeps_quota(self) -> bool:
        """Whether the Workload has a quota reservation, and is not deleted, evicted or finished."""
        return self.reserves and not (self.deleting or self.evicted or self.is_true("Finished"))

    def assigned_count(self, pod_set: str) -> int:
        """Return the number of pods that the pod set may have."""
        found = self.assigned.get(pod_set)
        return self.counts.get(pod_set, 0) if found is None else found.count


@dataclass(frozen=True)
class Flavor:
    """A ResourceFlavor: the labels of its nodes, and tolerations for its pods."""

    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Body, ...] = ()


@dataclass(frozen=True)
class LocalQueue:
    """The job's LocalQueue: how many Workloads wait in it, why it is not active ("": it is), and
    the name of its ClusterQueue.
    """

    pending: int = 0
    inactive: str = ""
    cluster_queue: str = ""


@dataclass(frozen=True)
class Quota:
    """The quota of a ClusterQueue.

    `pending` Workloads wait for it. `total` is its nominal amount of each resource in all flavors,
    and `free` is what no Workload of the queue has reserved. Other queues of the cohort may have
    borrowed from it.
    """

    pending: int = 0
    total: Mapping[str, Decimal] = field(default_factory=dict)
    free: Mapping[str, Decimal] = field(default_factory=dict)
    cohort: str = ""


@dataclass(frozen=True)
class QueueView:
    """What is known about a job's queue.

    `enabled`: the operator is configured to use Kueue. `served`: the cluster serves Kueue's API.
    `known`: the Workloads have been listed, so `workload` is current (None: it does not exist).
    `unread` is the reason why an object that the job needs could not be read. `flavors` are the
    flavors that have been read, and `priority` is the value of the job's priority class (None: not
    read yet). `local` is the LocalQueue as it was last read (None: it has not been read, or
    `absent` says that it does not exist). `digest` is the digest that the Workload should have.
    `held_back` is the number of desired ranks that Kueue has not admitted. `read_in` is the number
    of seconds until the objects that are not watched are read again (None: never).

    `growth` is the larger Workload that waits to replace `workload`. `others` are Workloads of the
    job that are no longer needed. `slices` says whether Kueue can replace a Workload with a larger
    one (None: not known yet). `quota` is the quota of the ClusterQueue, as it was last read.
    """

    enabled: bool = False
    served: bool = True
    known: bool = False
    workload: Workload | None = None
    growth: Workload | None = None
    others: tuple[Workload, ...] = ()
    slices: bool | None = None
    unread: str = ""
    flavors: Mapping[str, Flavor] = field(default_factory=dict)
    priority: int | None = None
    local: LocalQueue | None = None
    quota: Quota | None = None
    absent: bool = False
    digest: str = ""
    held_back: int = 0
    read_in: float | None = None
