"""The spec of a DIJob, as the user writes it."""

from typing import Annotated, Any, Final

from pydantic import Field, StrictInt

from dijob import names
from dijob.api.ingress import NetworkPolicy
from dijob.api.parts import (
    EngineFields,
    FailurePolicy,
    MessageQueue,
    Replicas,
    Restart,
    Seconds,
    Task,
    Template,
    Workers,
    Written,
)
from dijob.api.traits import DEFAULTED, Immutable, Mutable
from dijob.names import (
    Addressing,
    CleanPodPolicy,
    Launcher,
    Priority,
    Runtime,
    ServicePolicy,
    Topology,
)

LostNodeSeconds = Annotated[StrictInt, Field(ge=0, le=86400)]
TtlSeconds = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
SuccessPolicy = Annotated[str, Field(min_length=1, max_length=40)]
Volumes = Annotated[list[dict[str, Any]], Field(max_length=64)]
Tasks = Annotated[tuple[Task, ...], Field(min_length=1, max_length=names.MAX_TASKS)]


# What the processes take where they are told nothing (dijob_runtime/hook/connected.py).
CONNECT_SECONDS: Final = 120


class Spec(Written):
    """The desired job: pods of one template, or of several tasks."""

    # Not DEFAULTED, like the next two: the operator writes it once (see `desired`).
    replicas: Annotated[Replicas | None, Mutable.ALWAYS] = None
    """How many pods the job wants: one rank each. `kubectl scale` writes it. Absent: the operator
    sets it once, to maxReplicas (else minReplicas)."""
    min_replicas: Annotated[Replicas | None, Mutable.UNTIL_ENDED] = None
    """How many pods must have addresses before the job starts: ranks 0 to minReplicas-1. The others
    join when they can. Absent: replicas."""
    max_replicas: Annotated[Replicas | None, Mutable.UNTIL_ENDED] = None
    """How many pods the job may be scaled to. Absent: replicas."""
    parallel_workers: Annotated[
        Workers | None,
        Immutable("it sets the world size that the running processes know"),
    ] = None
    """Worker processes per pod; the world's size is pods x parallelWorkers. Absent: the value of
    the command's --parallel-workers, else 1."""
    # Not DEFAULTED: absent is not the same as mesh (the command may say star).
    topology: Annotated[
        Topology,
        Immutable("it sets how the running processes are connected", default_is_hashed=True),
    ] = Topology.MESH
    """Which ranks connect to which: mesh (each to all), star (all to rank 0) or alone (none).
    Absent: the value of the command's --topology, else mesh."""
    runtime: Annotated[Runtime, DEFAULTED, Immutable()] = Runtime.DITASK
    """The variables that the processes get besides DI_*: none (ditask), or those of torch
    (MASTER_ADDR, RANK, PET_NNODES, ...), slurm (SLURM_NTASKS, SLURM_NODELIST, ...) or oneflow."""
    message_queue: Annotated[MessageQueue | None, Immutable()] = None
    """The transport of events between DI-engine's processes: nng, torchrpc, or a Redis server,
    which the operator runs where no host is named. Absent: the command's --mq-type, else nng."""
    addressing: Annotated[Addressing, DEFAULTED, Immutable()] = Addressing.IP
    """The content of DI_NODES: the pods' IPs, or their names (JOB-RANK.JOB). A name stays the same
    when its pod is replaced: no other rank restarts after a loss, but each start waits for the
    cluster's DNS. runtime: slurm always has names."""
    service: Annotated[ServicePolicy, DEFAULTED, Mutable.UNTIL_ENDED] = ServicePolicy.AUTO
    """When the job has the headless service, by which each rank has a name (JOB-RANK.JOB): Auto,
    where the job itself uses names (addressing: Hostname, runtime: slurm); Always, for programs of
    yours that look them up, also in init containers and probes: it is created before the first pod.
    A service costs the control plane work at each start and loss."""
    launcher: Annotated[Launcher, DEFAULTED, Immutable(default_is_hashed=True)] = Launcher.AUTO
    """Auto puts the operator's launcher before the template's command, so that a plain `ditask ...`
    finds its peers in any image; Off runs the command as it is."""
    connect_seconds: Annotated[StrictInt, Field(ge=0, le=86400), Immutable()] = CONNECT_SECONDS
    """How long a process of DI-engine's Parallel waits, before its program begins, for the others
    that its address list names to be connected to it, so that nobody misses what is said first.
    Then it begins without them, and its log names them. Absent: 120. 0: it does not wait."""
    network_policy: Annotated[NetworkPolicy | None, Mutable.UNTIL_ENDED] = None
    """Who may connect to the job's pods besides these themselves, where the operator makes a
    NetworkPolicy for each job (the chart's value networkPolicy.jobs). A change reaches the running
    pods."""
    clean_pod_policy: Annotated[CleanPodPolicy, DEFAULTED, Mutable.ALWAYS] = CleanPodPolicy.RUNNING
    """Which pods are deleted when the job has ended: Running (those still running; the others keep
    their logs), All or None (only those whose program has not begun)."""
    restart: Annotated[Restart, Mutable.UNTIL_ENDED] = Restart()
    """Which ranks start again when one is lost (its pod, its node or its address)."""
    gather_seconds: Annotated[StrictInt, Field(ge=0, le=3600), Mutable.UNTIL_ENDED] = 10
    """How long ranks that have their addresses wait for others that have none yet: at the start,
    once minReplicas ranks are there, and when ranks join later. Absent: 10. 0: not at all."""
    schedule_timeout_seconds: Annotated[StrictInt, Field(ge=5, le=86400), Mutable.UNTIL_ENDED] = 300
    """How long a job in which no rank runs (not started, or renewed as a whole) may hold pods while
    a rank below minReplicas finds no node, or its pod is refused (a quota is full). Then the job
    deletes its pods that have a node if other pods wait for one, and tries again later.
    Absent: 300."""
    lost_node_seconds: Annotated[LostNodeSeconds | None, Mutable.UNTIL_ENDED] = None
    """How long pods stay on a node that is silent or not ready, before Kubernetes evicts them and
    the job goes on elsewhere. It applies to pods that are created from then on; a toleration of the
    template wins. Absent: the operator's value (the chart's jobs.lostNodeSeconds, 30)."""
    backoff_limit: Annotated[StrictInt, Field(ge=0, le=1000), DEFAULTED, Mutable.UNTIL_ENDED] = 3
    """How many restarts after failures the whole job may have before it is Failed. Evictions, lost
    nodes and pods deleted by hand are not charged."""
    failure_policy: Annotated[FailurePolicy, Mutable.UNTIL_ENDED] = FailurePolicy()
    """The action taken when a rank fails, by its exit code, its pod's conditions or its task."""
    success_policy: Annotated[SuccessPolicy, Mutable.UNTIL_ENDED] = names.ALL_REPLICAS
    """Which ranks must succeed for the job to succeed: AllReplicas (the default), Rank0, or a
    task's name (all ranks of that task). The others are ended then, as cleanPodPolicy says."""
    active_deadline_seconds: Annotated[Seconds | None, Mutable.UNTIL_ENDED] = None
    """The job is Failed when it has not ended within this time after status.startTime, when the
    operator first saw it. Time suspended does not count."""
    startup_deadline_seconds: Annotated[Seconds | None, Mutable.UNTIL_ENDED] = None
    """The job is Failed when it is not Running within this time after status.startTime, or after it
    was resumed or all ranks were renewed; the message says which rank it waited for."""
    ttl_seconds_after_finished: Annotated[TtlSeconds | None, Mutable.ALWAYS] = None
    """The DIJob and all that it owns are deleted this long after it has ended. Absent: never."""
    suspend: Annotated[bool, Mutable.UNTIL_ENDED] = False
    """While it is true, the job has no pods: they are ended gently. The job goes on with the same
    ranks and names when it is false again. Until then, immutable fields can be changed."""
    priority: Annotated[Priority, DEFAULTED, Immutable()] = Priority.NORMAL
    """The pods' priority class where the template has none: the operator's for normal or high."""
    preemptible: Annotated[bool, Mutable.UNTIL_ENDED] = False
    """Whether exit code 143 (SIGTERM) costs nothing, as in DI-orchestrator. Evictions never do."""
    group: Annotated[str, Field(max_length=63), Immutable()] = ""
    """A name that DIJobs can share: the pods' label diengine/group, for selectors."""
    engine_fields: Annotated[EngineFields | None, Immutable()] = None
    """DI-orchestrator 1.0's place for topology and parallelWorkers."""
    volumes: Annotated[Volumes | None, Immutable()] = None
    """Volumes that every pod has, besides its template's own."""
    tasks: Annotated[Tasks | None, Immutable(in_part=True)] = None
    """Groups of ranks with a template each, instead of replicas and template. Only the last task's
    replicas can be changed while the job is not suspended."""
    template: Annotated[Template | None, Immutable()] = None
    """The pod that is made once per rank, written as in a Deployment or a Job."""

    @property
    def desired(self) -> int:
        """How many ranks the job wants: its tasks', else replicas, maxReplicas or minReplicas."""
        if self.tasks:
            return sum(task.replicas for task in self.tasks)
        return self.replicas or self.max_replicas or self.min_replicas or 1

    def explicit(self, field: str) -> Any:
        """The value that the user gave `parallel_workers` or `topology`, here or in engineFields;
        None where neither has it."""
        given = getattr(self, field) if field in self.model_fields_set else None
        return given if given is not None else getattr(self.engine_fields, field, None)

    def place(self, field: str) -> str:
        """The dotted path of such a field, for messages."""
        alias = str(type(self).model_fields[field].alias)
        below = self.engine_fields is not None and field not in self.model_fields_set
        return f"spec.engineFields.{alias}" if below else f"spec.{alias}"

    @property
    def needs_dns(self) -> bool:
        """Whether the ranks look names up: each other's, or that of the job's own Redis server."""
        named = self.addressing is Addressing.HOSTNAME or self.runtime.traits.requires_hostnames
        return named or (self.message_queue is not None and self.message_queue.own)

    @property
    def minimum(self) -> int:
        """How many ranks must have addresses before the job starts."""
        return self.min_replicas or self.desired

    @property
    def maximum(self) -> int:
        """How many ranks the job may grow to."""
        return self.max_replicas or self.desired
