"""The DIJob: its spec, its status, and values derived from both.

The properties of the model resolve values that the spec leaves open. A value can be in a field, in
engineFields or in an option of the command. All other code uses these properties, so that the rules
of precedence are in one place.
"""

import hashlib
import json
from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator

from dijob import names
from dijob.api.parts import Text
from dijob.api.pod_sets import PodSet, pod_sets
from dijob.api.printed import one_line
from dijob.api.spec import Spec
from dijob.api.status import Status, Stored, without_nulls
from dijob.api.traits import Immutable, traits_by_field
from dijob.names import Addressing, Queue, RestartScope, ServicePolicy, Topology


class Metadata(Stored):
    """The parts of the object's metadata that the operator reads."""

    _null_is_absent = model_validator(mode="before")(without_nulls)

    name: str
    namespace: str = "default"
    uid: str = ""
    generation: int = 0
    annotations: dict[str, Annotated[str, Text]] = Field(default_factory=dict)
    labels: dict[str, Annotated[str, Text]] = Field(default_factory=dict)
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    resource_version: str = ""

    @property
    def owner_key(self) -> str:
        """The key under which the operator groups the object's children (names.owner_key)."""
        return names.owner_key(self.namespace, self.name, self.uid)


class DIJob(Stored):
    """A distributed reinforcement learning job: N pods that form one DI-engine world. Environment
    variables tell each process its peers' IPs, its node ids and the world size."""

    metadata: Metadata
    spec: Spec
    """The desired job."""
    status: Status = Status()
    """The observed state of the job and the operator's actions. Only the operator writes the
    status."""

    def __repr__(self) -> str:
        # pydantic's default representation shows all fields, which would fill a notebook's screen.
        size, meta = self.spec.desired, self.metadata
        # If the job names no namespace, it is created in the client's namespace.
        place = f"{meta.namespace}/" if "namespace" in meta.model_fields_set else ""
        pods = f"{size} pod" if size == 1 else f"{size} pods"
        return one_line(f"<DIJob {place}{meta.name}: {pods}>")

    __str__ = __repr__

    # The cached properties depend only on the spec. They are read many times per reconciliation.
    @cached_property
    def pod_sets(self) -> tuple[PodSet, ...]:
        """The job's pod sets in rank order: one for the template, or one for each task."""
        return pod_sets(self.spec)

    @property
    def gpus(self) -> int:
        """The total number of GPUs of all ranks."""
        return sum(one.gpus * one.replicas for one in self.pod_sets)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the fields that the job's pods are created from."""
        return spec_fingerprint(self.spec)

    def pod_set_of(self, rank: int) -> PodSet:
        """Return the pod set of a rank.

        After a job has been scaled down, ranks above the desired size exist until their pods are
        gone. They belong to the last set, because only the last task can be scaled.
        """
        return next(
            (pod_set for pod_set in self.pod_sets if rank < pod_set.first + pod_set.replicas),
            self.pod_sets[-1],
        )

    @property
    def workers(self) -> int:
        """Worker processes per pod: the number in the spec, else the command's --parallel-workers,
        else 1.

        The program may start a different number (see `workers_assumed`).
        """
        return self.stated_workers or 1

    @cached_property
    def stated_workers(self) -> int | None:
        """Worker processes per pod if the spec or the command states them, else None."""
        options = (pod_set.command.parallel_workers for pod_set in self.pod_sets)
        return self.spec.explicit("parallel_workers") or next(filter(None, options), None)

    @property
    def workers_assumed(self) -> bool:
        """Whether only the program knows how many worker processes a pod has: a script that calls
        Parallel.runner may ask for more than `workers`."""
        commands = [pod_set.command for pod_set in self.pod_sets]
        stated = all(one.runs_ditask and not one.hides("parallel-workers") for one in commands)
        return self.stated_workers is None and not stated

    @cached_property
    def topology(self) -> Topology:
        """Which ranks connect to which: the spec's topology, else the command's --topology, else
        mesh (star if the spec has engineFields, as in DI-orchestrator 1.0)."""
        if (field := self.spec.explicit("topology")) is not None:
            return Topology(field)
        # All ranks have the same topology, so any command that states a topology determines it.
        # Commands that disagree are rejected (checks.py).
        options = (
            pod_set.command.topology
            for pod_set in self.pod_sets
            if pod_set.command.topology in set(Topology)
        )
        return Topology(next(options, Topology.STAR if self.spec.engine_fields else Topology.MESH))

    @property
    def wants_service(self) -> bool:
        """Whether the job has a headless service: its peer list has names, or its spec asks for
        one."""
        always = self.spec.service is ServicePolicy.ALWAYS
        return always or self.addressing is Addressing.HOSTNAME

    @property
    def addressing(self) -> Addressing:
        """The kind of addresses in the peer list. If the runtime requires names, it is Hostname.
        Otherwise, it is the value of spec.addressing."""
        named = self.spec.runtime.traits.requires_hostnames
        return Addressing.HOSTNAME if named else self.spec.addressing

    @property
    def queue(self) -> str:
        """DI-engine's --mq-type: spec.messageQueue.type, else the command's option, else nng."""
        if self.spec.message_queue is not None:
            return self.spec.message_queue.type.value
        options = (pod_set.command.mq_type for pod_set in self.pod_sets)
        return next(filter(None, options), Queue.NNG.value)

    @property
    def server(self) -> str:
        """The name shared by the pod and the service of the job's own Redis server, or "" if
        the job has no such server.
        """
        queue = self.spec.message_queue
        return f"{self.metadata.name}-{names.SERVER_SUFFIX}" if queue and queue.own else ""

    @property
    def restart_scope(self) -> RestartScope:
        """Which ranks restart when one is lost: spec.restart.scope, else the scope that the runtime
        needs.
        """
        fixed = self.spec.runtime.traits.fixed_membership
        return self.spec.restart.scope or (RestartScope.JOB if fixed else RestartScope.POD)

    def resized(self, size: int) -> "DIJob":
        """Return the job as it would be with this number of ranks. In a job with tasks, only the
        last task's size changes.
        """
        spec = self.spec
        if spec.tasks:
            replicas = max(1, size - spec.fixed)
            last = spec.tasks[-1]
            # The new size may be smaller than the minimum that the user has set.
            least = last.min_replicas and min(last.min_replicas, replicas)
            tasks = (*spec.tasks[:-1], last.model_copy(update={"min_replicas": least}))
            spec = spec.model_copy(update={"replicas": replicas, "tasks": tasks})
        else:
            spec = spec.model_copy(update={"replicas": size})
        # A copy would keep the cached properties of the old spec.
        return DIJob.model_construct(metadata=self.metadata, spec=spec, status=self.status)

    @property
    def paused(self) -> bool:
        """Whether the job is paused: the annotation has any value other than "false"."""
        return self.metadata.annotations.get(names.ANNOTATION_PAUSED, "false") != "false"


def spec_fingerprint(spec: Spec) -> str:
    """Return a hash of the immutable fields. It shows whether a pod was created from this spec.

    The hash covers what the user wrote, not the pod that the operator creates from it. Otherwise an
    upgrade of the operator would mark every running pod as outdated. For the same reason, most
    fields are hashed only if they differ from their default. So if a new version of the operator
    adds such a field, the hash of each existing spec stays the same.
    """
    counted = {
        name
        for name, trait in traits_by_field(Spec, Immutable).items()
        if trait.default_is_hashed or getattr(spec, name) != Spec.model_fields[name].default
    }
    written = spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=counted)
    if spec.tasks:
        # The last task can be scaled while the job runs. A change to its size or its bounds must
        # not mark its pods as outdated.
        written["tasks"][-1].pop("replicas")
        for task in written["tasks"]:
            for field in ("disruptionBudget", "minReplicas", "maxReplicas"):
                task.pop(field, None)
    return hashlib.sha256(json.dumps(written, sort_keys=True).encode()).hexdigest()[:16]
