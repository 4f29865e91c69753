"""What the user wishes: the spec of a DIJob."""

from typing import Annotated, Any

from pydantic import Field

from dijob import names
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
from dijob.names import Addressing, CleanPodPolicy, Launcher, Priority, Runtime, Topology

BackoffLimit = Annotated[int, Field(strict=True, ge=0, le=1000)]
GatherSeconds = Annotated[int, Field(strict=True, ge=0, le=3600)]
ScheduleTimeout = Annotated[int, Field(strict=True, ge=5, le=86400)]
TtlSeconds = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
SuccessPolicy = Annotated[str, Field(min_length=1, max_length=40)]
# A label's value.
Group = Annotated[str, Field(max_length=63)]


class Spec(Written):
    """What the user wishes: pods of one template, or of several tasks."""

    replicas: Replicas | None = None
    """How many pods the job wishes to have: one rank each. `kubectl scale` writes it. Where it is absent, it
    is maxReplicas (else minReplicas), and the operator writes it down once."""
    min_replicas: Replicas | None = None
    """How many pods must have addresses before the job starts: ranks 0 to minReplicas-1. The others join when they
    can. Absent: replicas."""
    max_replicas: Replicas | None = None
    """How many pods the job may be scaled to. Absent: replicas."""
    parallel_workers: Workers | None = None
    """Worker processes per pod; the world's size is pods x parallelWorkers. Absent: what the command's
    --parallel-workers says, else 1. Can be changed only while suspended."""
    topology: Topology = Topology.MESH
    """Who connects to whom: mesh (each to all), star (all to rank 0) or alone (nobody). Absent: what the
    command's --topology says, else mesh. Can be changed only while suspended."""
    runtime: Runtime = Runtime.DITASK
    """Whose variables the processes get besides the DI_ ones: ditask (none), torch (MASTER_ADDR, RANK, PET_NNODES,
    ...), slurm (SLURM_NTASKS, SLURM_NODELIST, ...) or oneflow. Can be changed only while suspended."""
    message_queue: MessageQueue | None = None
    """What carries the events between DI-engine's processes: nng (where it is absent), torchrpc, or a Redis server, the
    job's own where it names none. Can be changed only while suspended."""
    addressing: Addressing = Addressing.IP
    """What stands in DI_NODES: the pods' IPs, or their names (JOB-RANK.JOB), which stay when a pod is made anew: then
    nobody else starts again after a loss, but each start waits for the cluster's DNS. runtime: slurm has names in any
    case. Can be changed only while suspended."""
    launcher: Launcher = Launcher.AUTO
    """Auto puts the operator's launcher before the template's command, so that a plain `ditask ...` finds its
    peers in any image; Off runs the command as it is. Can be changed only while suspended."""
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    """Which pods are deleted when the job has ended: Running (those still running; the others keep their
    logs), All or None (none, save those whose program has not begun)."""
    restart: Restart = Restart()
    """What is made anew when a rank is lost: its pod deleted or evicted, its node gone, its address changed."""
    gather_seconds: GatherSeconds = 10
    """How long ranks that have their addresses wait for others that are wished for and have none yet: at the start,
    once minReplicas ranks are there, and when ranks join later. Absent: 10. 0: not at all."""
    schedule_timeout_seconds: ScheduleTimeout = 300
    """How long a job in which nobody runs (not started, or renewed as a whole) may hold pods while a rank below
    minReplicas finds no node, or is refused its pod (a quota is full). Then it gives all of its pods back, so that
    another job can start, and tries again later. Absent: 300."""
    backoff_limit: BackoffLimit = 3
    """How many restarts that follow a failure the whole job may have before it is Failed. Evictions, lost
    nodes and pods deleted by hand are not charged."""
    failure_policy: FailurePolicy = FailurePolicy()
    """What the failure of a rank leads to, by its exit code, its pod's conditions or its task."""
    success_policy: SuccessPolicy = names.ALL_REPLICAS
    """Whose success is the job's: AllReplicas (where it is absent), Rank0, or a task's name (all ranks of that task).
    The others are ended then, as cleanPodPolicy says."""
    active_deadline_seconds: Seconds | None = None
    """The job is Failed when it has not ended so long after status.startTime, when the operator first saw it. Time
    suspended does not count."""
    startup_deadline_seconds: Seconds | None = None
    """The job is Failed when it is not Running so long after status.startTime, or after it was resumed or all ranks
    were renewed; the message says which rank it waited for."""
    ttl_seconds_after_finished: TtlSeconds | None = None
    """The DIJob, with all that belongs to it, is deleted so long after it has ended. Absent: never."""
    suspend: bool = False
    """While it is true, the job has no pods: they are ended gently. It goes on with the same ranks and names when it is
    false again. Until then, what cannot be changed otherwise can."""
    priority: Priority = Priority.NORMAL
    """The pods' priority class, where the template names none: what the operator's values say of normal and high.
    Can be changed only while suspended."""
    preemptible: bool = False
    """Whether an end with 143 (asked to end from outside) costs nothing, as in DI-orchestrator. Evictions never do."""
    group: Group = ""
    """A name that DIJobs can share: the pods' label diengine/group, for selectors. Can be changed only while
    suspended."""
    engine_fields: EngineFields | None = None
    """DI-orchestrator 1.0's place for topology and parallelWorkers. Can be changed only while suspended."""
    volumes: Annotated[list[dict[str, Any]], Field(max_length=64)] | None = None
    """Volumes that every pod has, besides its template's own. Can be changed only while suspended."""
    tasks: Annotated[tuple[Task, ...], Field(min_length=1, max_length=names.MAX_TASKS)] | None = None
    """The job's ranks by what they do, instead of replicas and template. Only the last task's replicas can be changed
    while it is not suspended."""
    template: Template | None = None
    """The pod that is made once per rank, written as in a Deployment or a Job. Can be changed only while suspended."""

    @property
    def desired(self) -> int:
        """How many ranks the job wishes to have: those of all tasks; else replicas, maxReplicas, minReplicas."""
        if self.tasks:
            return sum(task.replicas for task in self.tasks)
        return self.replicas or self.max_replicas or self.min_replicas or 1

    def told(self, field: str) -> Any:
        """What the fields themselves say of `parallel_workers` or `topology`; None where neither place has it."""
        given = getattr(self, field) if field in self.model_fields_set else None
        return given if given is not None else getattr(self.engine_fields, field, None)

    def place(self, field: str) -> str:
        """Where such a field stands, for sentences."""
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
