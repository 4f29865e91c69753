"""The spec of a DIJob, as the user writes it.

This model is the only definition of the API. The CRD (with its rules and defaults), the fingerprint
of a pod and docs/reference.md are generated from it. A field's type and bounds come from its
annotation, its description from its docstring, and its behavior from its traits (traits.py).
"""

from typing import Annotated, Any, Final

from pydantic import Field, StrictInt

from dijob import names
from dijob.api.ingress import NetworkPolicy
from dijob.api.parts import (
    DisruptionBudget,
    EngineFields,
    FailurePolicy,
    MessageQueue,
    Replicas,
    Restart,
    Scheduling,
    Seconds,
    Task,
    Template,
    Workers,
    Written,
)
from dijob.api.traits import DEFAULTED, Fixed, Immutable, Mutable
from dijob.names import (
    Addressing,
    CleanPodPolicy,
    Launcher,
    Priority,
    Runtime,
    ServicePolicy,
    StallPolicy,
    Topology,
)

LostNodeSeconds = Annotated[StrictInt, Field(ge=0, le=86400)]
# A report takes up to 5 s to get from the program to the operator. The maximum is a week.
StallSeconds = Annotated[StrictInt, Field(ge=10, le=604800)]
TtlSeconds = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
SuccessPolicy = Annotated[str, Field(min_length=1, max_length=40)]
Volumes = Annotated[list[dict[str, Any]], Field(max_length=64)]
Tasks = Annotated[tuple[Task, ...], Field(min_length=1, max_length=names.MAX_TASKS)]


# The runtime hook has the same default, for pods that get no value
# (dijob_runtime/hook/connected.py).
CONNECT_SECONDS: Final = 120


class Spec(Written):
    """The desired job: pods that are created from one template, or from those of several tasks."""

    # This field and the next two are not DEFAULTED: a default in the CRD is a constant, and these
    # defaults depend on each other. The operator writes the result of `desired` into `replicas`
    # once, because the scale subresource needs a value.
    replicas: Annotated[Replicas | None, Mutable.ALWAYS] = None
    """Desired number of pods, one for each rank. `kubectl scale` sets it. If it is absent, the
    operator sets it once: to maxReplicas, or to minReplicas if maxReplicas is also absent. In a job
    with tasks, it is the number of pods of the last task, and defaults to that task's replicas. The
    operator sets it again if that task's replicas are changed."""
    min_replicas: Annotated[Replicas | None, Mutable.UNTIL_ENDED] = None
    """Number of pods that must have addresses before the job starts: ranks 0 to minReplicas-1. The
    other ranks join when they can. Defaults to replicas."""
    max_replicas: Annotated[Replicas | None, Mutable.UNTIL_ENDED] = None
    """Maximum number of pods that the job can be scaled to. Defaults to replicas."""
    parallel_workers: Annotated[
        Workers | None,
        Immutable("it sets the world size that the running processes know"),
    ] = None
    """Worker processes per pod; the world size is pods x parallelWorkers. Defaults to the command's
    --parallel-workers, else 1."""
    # This field is not DEFAULTED: if it is absent, the command decides, and the command may choose
    # star. A default in the CRD would look like the user's choice.
    topology: Annotated[
        Topology,
        Immutable("it sets how the running processes are connected", default_is_hashed=True),
    ] = Topology.MESH
    """Which ranks connect to which: mesh (each to all others), star (all to rank 0) or alone
    (none). Defaults to the command's --topology, else mesh."""
    runtime: Annotated[Runtime, DEFAULTED, Immutable()] = Runtime.DITASK
    """Which variables the processes get in addition to DI_*: none (ditask), or those of torch
    (MASTER_ADDR, RANK, PET_NNODES, ...), slurm (SLURM_NTASKS, SLURM_NODELIST, ...) or oneflow."""
    message_queue: Annotated[MessageQueue | None, Immutable()] = None
    """The transport of events between DI-engine's processes: nng, torchrpc, or a Redis server,
    which the operator runs if no host is given. Defaults to the command's --mq-type, else nng."""
    addressing: Annotated[Addressing, DEFAULTED, Immutable()] = Addressing.IP
    """The content of DI_NODES: the pods' IPs, or their DNS names (JOB-RANK.JOB). A name stays the
    same when its pod is replaced, so no other rank restarts after a loss. However, each start waits
    for the cluster's DNS. runtime: slurm always uses names."""
    service: Annotated[ServicePolicy, DEFAULTED, Mutable.UNTIL_ENDED] = ServicePolicy.AUTO
    """Whether the job has a headless service, which gives each rank a DNS name (JOB-RANK.JOB).
    Auto: only if the job itself uses names (addressing: Hostname, runtime: slurm). Always: for your
    own programs that look up the names, including programs in init containers and probes. The
    service is created before the first pod. A service adds work for the control plane whenever a
    rank starts or is lost."""
    launcher: Annotated[Launcher, DEFAULTED, Immutable(default_is_hashed=True)] = Launcher.AUTO
    """Auto puts the operator's launcher before the template's command, so that a plain `ditask ...`
    finds its peers in any image. Off runs the command as it is."""
    connect_seconds: Annotated[StrictInt, Field(ge=0, le=86400), Immutable()] = CONNECT_SECONDS
    """How long a process of DI-engine's Parallel waits for connections to all peers in its peer
    list before its program starts. It waits so that no peer misses the first messages. After
    this time, the program starts without the missing peers, and its log names them. Defaults to
    120. 0: no wait."""
    network_policy: Annotated[NetworkPolicy | None, Mutable.UNTIL_ENDED] = None
    """Peers that may connect to the job's pods, in addition to the job's pods themselves. Applies
    only if the operator creates a NetworkPolicy for each job (the chart value networkPolicy.jobs).
    A change also applies to running pods."""
    clean_pod_policy: Annotated[CleanPodPolicy, DEFAULTED, Mutable.ALWAYS] = CleanPodPolicy.RUNNING
    """Which pods are deleted when the job has ended. Running: the pods that are still running; the
    others keep their logs. All: all pods. None: only the pods whose program has not started."""
    restart: Annotated[Restart, Mutable.UNTIL_ENDED] = Restart()
    """Which ranks restart when a rank loses its pod, its node or its address."""
    gather_seconds: Annotated[StrictInt, Field(ge=0, le=3600), Mutable.UNTIL_ENDED] = 10
    """The join window: how long ranks that have an address wait for other ranks. It applies when
    the job starts (once minReplicas ranks have an address) and when ranks join later. Defaults to
    10. 0: no wait."""
    schedule_timeout_seconds: Annotated[StrictInt, Field(ge=5, le=86400), Mutable.UNTIL_ENDED] = 300
    """The admission timeout: how long a job that cannot start may keep its pods. The timeout
    applies while no rank of the job is running: before the job has started, and while all its ranks
    restart. A job cannot start if a required rank has no node, or if the rank's pod is rejected
    because a quota is full. A rank is required if it must have an address before the job starts
    (minReplicas). After the timeout, the operator deletes pods of the job and retries later. If a
    quota is full, it deletes all of them. Otherwise it deletes only those that have a node, and
    only if pods outside the job are waiting for a node. Defaults to 300."""
    scheduling: Annotated[Scheduling, Immutable()] = Scheduling()
    """Gang scheduling: the cluster places either at least minAvailable ranks of the job at the same
    time or no rank at all."""
    disruption_budget: Annotated[DisruptionBudget | None, Mutable.UNTIL_ENDED] = None
    """How many ranks a node drain may stop at the same time. If the field is absent, a drain may
    stop all of them. In a job with tasks, use tasks[].disruptionBudget."""
    lost_node_seconds: Annotated[LostNodeSeconds | None, Mutable.UNTIL_ENDED] = None
    """How many seconds a node must be unreachable or not ready before Kubernetes evicts the
    job's pods from it. The job then continues elsewhere. A change applies only to pods that are
    created after it. A toleration in the template takes precedence. Defaults to the operator's
    value (the chart value jobs.lostNodeSeconds, by default 30)."""
    backoff_limit: Annotated[StrictInt, Field(ge=0, le=1000), DEFAULTED, Mutable.UNTIL_ENDED] = 3
    """Number of restarts after failures, over all ranks, before the job is marked Failed.
    Evictions, lost nodes and pods deleted by hand do not count."""
    failure_policy: Annotated[FailurePolicy, Mutable.UNTIL_ENDED] = FailurePolicy()
    """Which action to take when a rank fails, depending on its exit code, its pod's conditions, or
    its task."""
    success_policy: Annotated[SuccessPolicy, Mutable.UNTIL_ENDED] = names.ALL_REPLICAS
    """Which ranks must succeed for the job to succeed: AllReplicas (the default), Rank0, or the
    name of a task (all ranks of that task). When they have succeeded, the job ends, and
    cleanPodPolicy determines which pods are deleted."""
    active_deadline_seconds: Annotated[Seconds | None, Mutable.UNTIL_ENDED] = None
    """The job fails if it has not ended within this time after status.startTime (when the operator
    first saw the job). Time spent suspended does not count."""
    startup_deadline_seconds: Annotated[Seconds | None, Mutable.UNTIL_ENDED] = None
    """The job fails if it is not Running within this time. The time starts at status.startTime,
    and starts again whenever the job is resumed or all ranks restart. The failure message names the
    rank that the job was waiting for."""
    ttl_seconds_after_finished: Annotated[TtlSeconds | None, Mutable.ALWAYS] = None
    """The DIJob and everything that it owns are deleted this long after the job has ended. If the
    field is absent, they are kept."""
    stall_seconds: Annotated[StallSeconds | None, Mutable.UNTIL_ENDED] = None
    """If the training makes no progress for this long while all ranks are Ready, the condition
    ProgressStalled becomes True. Its message says when and at which iteration progress stopped, and
    what the programs are executing. If the field is absent, nothing is checked. Use at least 300;
    docs/progress.md has measurements."""
    stall_policy: Annotated[StallPolicy | None, Mutable.UNTIL_ENDED] = None
    """What happens when stallSeconds have passed without progress. Report: only the condition is
    set. Restart: the slowest task or rank also restarts, but only once in the job's lifetime. This
    restart counts as a failure. Defaults to Report."""
    suspend: Annotated[bool, Mutable.UNTIL_ENDED] = False
    """While suspend is true, the job has no pods; running programs are stopped gracefully. When it
    is false again, the job continues with the same ranks and names. While the job is suspended,
    immutable fields can be changed."""
    managed_by: Annotated[
        str | None,
        Field(max_length=63),
        Fixed("two controllers would manage the same job"),
    ] = None
    """The controller that manages the job: a domain and a path, such as kueue.x-k8s.io/multikueue.
    If it is absent or diengine.opendilab.org/dijob-operator, this operator manages the job. With
    any other value, this operator does not create, change or delete any of the job's objects, and
    does not write its status."""
    priority: Annotated[Priority, DEFAULTED, Immutable()] = Priority.NORMAL
    """If the template has no priority class, the pods get the class that the operator's
    configuration sets for this priority (normal or high)."""
    preemptible: Annotated[bool, Mutable.UNTIL_ENDED] = False
    """If true, exit code 143 (SIGTERM) does not count as a failure, as in DI-orchestrator.
    In either case, evictions count only if a rule of failurePolicy counts them."""
    group: Annotated[str, Field(max_length=63), Immutable()] = ""
    """A name that several DIJobs can share. It becomes the pods' label diengine/group, for
    selectors."""
    engine_fields: Annotated[EngineFields | None, Immutable()] = None
    """topology and parallelWorkers, at the path that DI-orchestrator 1.0 uses."""
    volumes: Annotated[Volumes | None, Immutable()] = None
    """Volumes that every pod gets in addition to those of its template."""
    tasks: Annotated[Tasks | None, Immutable(in_part=True)] = None
    """Groups of ranks, each with its own replicas and template. A job has either tasks or
    spec.template. While the job is not suspended, only the last task's replicas can be changed."""
    template: Annotated[Template | None, Immutable()] = None
    """The template of each rank's pod, in the same format as the pod template of a Deployment or a
    Job."""

    @property
    def desired(self) -> int:
        """The desired total number of ranks."""
        return self.fixed + self.scale

    @property
    def fixed(self) -> int:
        """The number of ranks that cannot be scaled: those of all tasks but the last."""
        return sum(task.replicas for task in (self.tasks or ())[:-1])

    @property
    def scaled(self) -> "Spec | Task":
        """The object with the size and the bounds for scaling: the last task, or this spec if the
        job has no tasks."""
        return self.tasks[-1] if self.tasks else self

    @property
    def scale(self) -> int:
        """The size that the scale subresource reads and writes: the number of ranks of the last
        task, or of the whole job if it has no tasks. In a job with tasks, the result is kept within
        the bounds of the last task. So users can change these bounds without changing `replicas`,
        which an autoscaler may own.
        """
        if not self.tasks:
            return self.replicas or self.max_replicas or self.min_replicas or 1
        last = self.tasks[-1]
        size = max(self.replicas or last.replicas, last.min_replicas or 1)
        return min(size, last.max_replicas or names.MAX_REPLICAS)

    def explicit(self, field: str) -> Any:
        """Return the user's value for `parallel_workers` or `topology`, or None if there is none.

        The user can set the value in this spec or in its engineFields. The model's attribute is not
        enough: `topology` has a default, and only a value that the user set takes precedence over
        the command's option.
        """
        given = getattr(self, field) if field in self.model_fields_set else None
        return given if given is not None else getattr(self.engine_fields, field, None)

    def place(self, field: str) -> str:
        """Return the dotted path at which the user set `parallel_workers` or `topology`, for
        messages.
        """
        alias = str(type(self).model_fields[field].alias)
        below = self.engine_fields is not None and field not in self.model_fields_set
        return f"spec.engineFields.{alias}" if below else f"spec.{alias}"

    @property
    def needs_dns(self) -> bool:
        """Whether the ranks resolve names: each other's, or that of the job's own Redis server."""
        named = self.addressing is Addressing.HOSTNAME or self.runtime.traits.requires_hostnames
        return named or (self.message_queue is not None and self.message_queue.own)

    @property
    def minimum(self) -> int:
        """The number of ranks that must have addresses before the job starts."""
        return self.fixed + (self.scaled.min_replicas or self.scale)

    @property
    def gang_minimum(self) -> int:
        """The number of ranks that the job's engine must place at the same time."""
        return self.scheduling.min_available or self.minimum

    @property
    def maximum(self) -> int:
        """The maximum number of ranks that the job can be scaled to."""
        return self.fixed + (self.scaled.max_replicas or self.scale)
