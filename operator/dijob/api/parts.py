"""The models of the objects that are nested in a spec."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from dijob import names
from dijob.api.status import Stored, without_nulls
from dijob.api.traits import DEFAULTED
from dijob.names import (
    Engine,
    FailureAction,
    Queue,
    RestartScope,
    Runtime,
    TaskType,
    Topology,
    TopologyMode,
)

Replicas = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Workers = Annotated[int, Field(strict=True, ge=1, le=names.MAX_WORKERS)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
ExitCode = Annotated[int, Field(strict=True, ge=1, le=255, description="One exit code.")]
# Kubernetes limits all annotations of an object to 256 KiB, and a label value to 63 characters.
# The bounds here keep the estimated cost of the CRD's CEL rules finite.
Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]
# A Deployment accepts null as an empty string, so a template may also contain null.
Text = BeforeValidator(lambda value: "" if value is None else value)
PodLabels = Annotated[dict[str, Annotated[str, Field(max_length=63), Text]], Field(max_length=64)]
PodAnnotations = Annotated[
    dict[str, Annotated[str, Field(max_length=65536), Text]], Field(max_length=64)
]
# The pods are named JOB-TASK-INDEX, and the full name must fit into 63 characters.
TaskName = Annotated[str, Field(max_length=40)]
MAX_RULES: Final = 20


IgnoredText = Annotated[str, Field(max_length=1024)] | None
IgnoredWord = Annotated[str, Field(max_length=1024, description="Ignored."), Text]
IgnoredObjects = Annotated[list[Any], Field(max_length=64)] | None


class Strict(Stored):
    """An object that a user wrote. An unknown field in it is rejected, because it is most likely a
    typo.
    """

    model_config = ConfigDict(extra="forbid")


class Written(Strict):
    """An object that a user wrote, in which null means absent. Helm charts often render null for a
    value that is not set.
    """

    _null_is_absent = model_validator(mode="before")(without_nulls)


class TemplateMetadata(Written):
    """Labels and annotations of the pods. Other metadata fields are accepted, as in a Deployment,
    but ignored."""

    labels: PodLabels | None = None
    """Labels added to every pod. Keys with the prefix diengine.opendilab.org/ are rejected."""
    annotations: PodAnnotations | None = None
    """Annotations added to every pod. Keys with the prefix diengine.opendilab.org/ are rejected."""
    name: IgnoredText = None
    """Ignored: the pods are named after the job."""
    generate_name: IgnoredText = None
    """Ignored: the pods are named after the job."""
    namespace: IgnoredText = None
    """Ignored: the pods are created in the job's namespace."""
    finalizers: Annotated[list[IgnoredWord], Field(max_length=64)] | None = None
    """Ignored."""
    owner_references: IgnoredObjects = None
    """Ignored: the job owns the pods."""
    uid: IgnoredText = None
    """Ignored."""
    resource_version: IgnoredText = None
    """Ignored."""
    generation: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """Ignored."""
    creation_timestamp: IgnoredText = None
    """Ignored."""
    deletion_timestamp: IgnoredText = None
    """Ignored."""
    deletion_grace_period_seconds: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """Ignored."""
    self_link: IgnoredText = None
    """Ignored."""
    managed_fields: IgnoredObjects = None
    """Ignored."""


class Template(Written):
    """The template of each rank's pod, in the same format as the pod template of a Deployment or a
    Job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: dict[str, Any] | None = None
    """The pod's spec, a Kubernetes PodSpec. The main container is the one named di-container or, if
    there is none, the first container. restartPolicy is OnFailure or Never. The operator adds the
    topology variables (DI_RANK, DI_NODES, DI_NODE_IPS, ...), a gate as the last init container, and
    its launcher before `command`."""
    containers: list[Any] | None = None
    """Always rejected, because `containers` belongs in template.spec. The field exists only so that
    the error message can say this."""


class DisruptionBudget(Written):
    """How many ranks a node drain may stop at the same time. The operator creates a
    PodDisruptionBudget, which Kubernetes' eviction API respects. The budget does not limit lost
    nodes, preemption, or the deletion of pods."""

    max_unavailable: Annotated[int, Field(strict=True, ge=0, le=names.MAX_REPLICAS)]
    """The maximum number of ranks that may be unready after a Ready rank has been evicted. With 0,
    no Ready rank can be evicted. With 1, the ranks are evicted one at a time: each eviction waits
    until the previous rank is Ready on another node. Ranks that have succeeded are not counted."""


class Task(Written):
    """A group of the job's ranks with its own pod template."""

    name: TaskName = ""
    """The task's name, unique in the job. The task's pods are named JOB-NAME-INDEX. The variable
    DI_<NAME>_NODES contains their addresses. Defaults to the type."""
    type: TaskType
    """learner, collector, evaluator or none. A job can have at most one learner task, one
    collector task and one evaluator task, as in DI-orchestrator. It can have several tasks of type
    none. Each of these needs a name."""
    # The field is DEFAULTED, because the CEL rules that restrict changes compare its old and new
    # values, and CEL cannot compare absent values.
    replicas: Annotated[Replicas, DEFAULTED] = 1
    """Number of pods. Ranks are numbered across all tasks in order, so only the last task's
    replicas can be changed. The number of pods of the last task is spec.replicas. If this field is
    changed for the last task, the operator sets spec.replicas to the new value."""
    min_replicas: Replicas | None = None
    """Only for the last task: the minimum size of the task. The job starts when this many of the
    task's pods, and all pods of the other tasks, have addresses. The other pods join later. If the
    field is absent, the task can be scaled down to 1, but the job starts only when all pods have
    addresses."""
    max_replicas: Replicas | None = None
    """Only for the last task: the maximum size of the task. If the field is absent, only the limit
    of 1500 pods per job applies."""
    disruption_budget: DisruptionBudget | None = None
    """How many of this task's ranks a node drain may stop at the same time. If the field is absent,
    a drain may stop all of them. The field can be changed until the job has ended."""
    # A default in the CRD must be a constant, so it cannot be the job's runtime.
    runtime: Runtime | None = None
    """torch: this task's ranks train together in their own process group. They get RANK,
    WORLD_SIZE, MASTER_ADDR, PET_NNODES, ..., which describe only this task's pods. When one of
    these ranks is lost or fails, all of them restart. ditask: the ranks get only the DI_ variables.
    With either value, all tasks remain one DI-engine world. This field requires
    spec.runtime: ditask. Defaults to spec.runtime."""
    template: Template
    """The template of this task's pods, in the same format as spec.template."""


class EngineFields(Written):
    """topology and parallelWorkers, at the path that DI-orchestrator 1.0 uses."""

    topology: Topology | None = None
    """Same as spec.topology. Defaults to the command's --topology, else star, as in
    DI-orchestrator."""
    parallel_workers: Workers | None = None
    """Same as spec.parallelWorkers."""


class MessageQueue(Written):
    """The transport of events between DI-engine's processes."""

    type: Annotated[Queue, DEFAULTED] = Queue.NNG
    """nng connects the processes to each other according to the topology. With redis, each process
    connects to a Redis server. The torchrpc types connect the processes like nng, but use
    torch.distributed.rpc and need dijob-runtime in the image. With torchrpc:cuda, torch sends
    tensors from GPU to GPU. torchrpc means torchrpc:cuda if the pod has CUDA, else torchrpc:cpu."""
    host: Annotated[str, Field(max_length=253)] = ""
    """Name or IP of a Redis server. It must not require a password, because DI-engine sends none.
    Jobs cannot share a server, because DI-engine uses the same channel names in all jobs. If
    the type is redis and no host is given, the operator runs a server."""
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = names.REDIS_PORT
    """The Redis server's port. It cannot be changed if the operator runs the server; create another
    job instead."""

    @property
    def own(self) -> bool:
        """Whether the operator runs a Redis server for the job."""
        return self.type is Queue.REDIS and not self.host


class Restart(Written):
    """Which ranks restart when one is lost."""

    scope: RestartScope | None = None
    """Pod replaces the lost rank and restarts the ranks that connect to it; the others keep
    running. Job restarts all ranks, for programs that cannot accept a returning member. With
    runtime torch or oneflow, it also restarts ranks that have succeeded. Defaults to Job for these
    two runtimes, else Pod. The ranks of a task with runtime torch always restart together."""


class SchedulingTopology(Written):
    """The topology domain in which all ranks of the job run, for example one rack."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """The node label whose value identifies the domain, such as topology.kubernetes.io/zone."""
    mode: Annotated[TopologyMode, DEFAULTED] = TopologyMode.REQUIRED
    """Required: the ranks wait until one domain has enough capacity for all of them. Preferred: the
    ranks run in one domain if possible, otherwise in several. The Native engine supports only
    Required."""


class Scheduling(Written):
    """How the cluster assigns nodes to the job's ranks."""

    engine: Engine | None = None
    """The scheduler that places the ranks together: either at least minAvailable of them, or none
    of them. Native: the scheduler of Kubernetes 1.37 or later (a PodGroup of
    scheduling.k8s.io/v1beta1, which the cluster must serve). Volcano, Coscheduling (from
    scheduler-plugins), YuniKorn, KAI: the scheduler with that name, which must be installed in the
    cluster. Kueue: the queue in the label kueue.x-k8s.io/queue-name admits the job (the chart value
    scheduling.kueue must be true). None: each pod is scheduled on its own. Defaults to Kueue if the
    job has the queue label and the operator uses Kueue. Otherwise, the default is None if the
    template itself puts the pods into a group, for example with schedulingGroup. In all other
    cases, the default is the operator's engine (the chart value scheduling.engine, by default
    None)."""
    queue: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """The engine's queue from which the job gets its nodes. Only for Volcano, YuniKorn and KAI. If
    the field is absent, the scheduler decides, or uses its default queue."""
    min_available: Replicas | None = None
    """How many ranks must have nodes at the same time before any of them starts. Ranks that have
    succeeded, or that were removed when the job was scaled down, are not counted. Defaults to
    minReplicas, or to all ranks if the job is not elastic."""
    topology: SchedulingTopology | None = None
    """The topology domain in which all ranks run. The cluster must support this: with the Native
    engine, it needs the feature gate TopologyAwareWorkloadScheduling. With Volcano, the key is the
    tierName of HyperNodes. The Coscheduling, YuniKorn and KAI engines do not support it."""


class OnExitCodes(Written):
    """The exit codes that a rule matches."""

    operator: Literal["In", "NotIn"] = "In"
    """In: the exit code is one of the values. NotIn: the exit code is none of the values."""
    values: Annotated[tuple[ExitCode, ...], Field(min_length=1, max_length=255)]
    """Exit codes, 1 to 255. After signal n the code is 128 + n (137: SIGKILL, 143: SIGTERM)."""


class OnPodCondition(Written):
    """A pod condition that a rule matches."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """The condition's type, for example DisruptionTarget: the pod was evicted or preempted, or its
    node was lost."""
    status: Literal["True", "False", "Unknown"] = "True"
    """The condition's status: True, False or Unknown."""


class FailureRule(Written):
    """An action for failures. A rule with neither onExitCodes nor onPodConditions matches all
    failures.
    """

    action: FailureAction
    """FailJob fails the job immediately. RestartJob restarts all ranks. Restart restarts the failed
    rank. If the rank's pod is lost, Restart also restarts the ranks that connect to this rank.
    RestartJob and Restart count against backoffLimit. Ignore does the same as Restart, but does not
    count."""
    task: TaskName = ""
    """The rule matches only failures of this task's ranks. If no task is given, it matches failures
    of any rank."""
    on_exit_codes: OnExitCodes | None = None
    """Exit codes of the main container if it failed, otherwise of another container that failed.
    Needs restartPolicy: Never, because a container that restarts in its pod shows its exit code
    only briefly."""
    on_pod_conditions: (
        Annotated[tuple[OnPodCondition, ...], Field(min_length=1, max_length=20)] | None
    ) = None
    """Conditions of the failed pod. At least one of them must match."""


class FailurePolicy(Written):
    """Rules that map failures to actions."""

    rules: Annotated[tuple[FailureRule, ...], Field(max_length=MAX_RULES)] = ()
    """The first rule that matches applies. If none matches, the action is Restart. A disruption (an
    eviction, a preemption, a lost node) counts as a failure only if a rule with onPodConditions
    matches it."""
