"""The parts of a spec: the objects below its fields."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from dijob import names
from dijob.api.status import Stored, without_nulls
from dijob.api.traits import DEFAULTED
from dijob.names import FailureAction, Queue, RestartScope, TaskType, Topology

Replicas = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Workers = Annotated[int, Field(strict=True, ge=1, le=names.MAX_WORKERS)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
ExitCode = Annotated[int, Field(strict=True, ge=1, le=255, description="One exit code.")]
# Kubernetes bounds annotations at 256 KiB in sum, label values at 63 characters.
Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]
# As in a Deployment, null is the empty text.
Text = BeforeValidator(lambda value: "" if value is None else value)
PodLabels = Annotated[dict[str, Annotated[str, Field(max_length=63), Text]], Field(max_length=64)]
PodAnnotations = Annotated[
    dict[str, Annotated[str, Field(max_length=65536), Text]], Field(max_length=64)
]
# The pods are named JOB-TASK-INDEX, which has to fit into 63 characters with the job's name.
TaskName = Annotated[str, Field(max_length=40)]
MAX_RULES: Final = 20


IgnoredText = Annotated[str, Field(max_length=1024)] | None
IgnoredWord = Annotated[str, Field(max_length=1024, description="Ignored."), Text]
IgnoredObjects = Annotated[list[Any], Field(max_length=64)] | None


class Strict(Stored):
    """An object that a user wrote: an unknown field is a mistake, and is refused."""

    model_config = ConfigDict(extra="forbid")


class Written(Strict):
    """Such an object in which null is as good as absent: charts write it for a value that is not
    set."""

    _null_is_absent = model_validator(mode="before")(without_nulls)


class TemplateMetadata(Written):
    """Labels and annotations of the pods. Other fields of metadata are accepted as in a Deployment,
    and ignored."""

    labels: PodLabels | None = None
    """Labels added to every pod. Keys below diengine.opendilab.org/ are refused."""
    annotations: PodAnnotations | None = None
    """Annotations added to every pod. Keys below diengine.opendilab.org/ are refused."""
    name: IgnoredText = None
    """Ignored: the pods are named after the job."""
    generate_name: IgnoredText = None
    """Ignored: the pods are named after the job."""
    namespace: IgnoredText = None
    """Ignored: the pods are in the job's namespace."""
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
    """The pod that is made once per rank, written as in a Deployment or a Job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: dict[str, Any] | None = None
    """The pod's spec, anything that Kubernetes knows. The main container is the one named
    di-container, else the first. restartPolicy is OnFailure or Never. The operator adds the
    variables of the topology (DI_RANK, DI_NODES, DI_NODE_IPS, ...), a gate as the last init
    container, and its launcher before `command`."""
    containers: list[Any] | None = None
    """Always refused: containers belongs under template.spec. Known only for that message."""


class Task(Written):
    """A group of the job's ranks, with a pod template of its own."""

    name: TaskName = ""
    """Unique. Its pods are JOB-NAME-INDEX, its addresses in DI_<NAME>_NODES. Absent: the type."""
    type: TaskType
    """learner, collector or evaluator (one each, as in DI-orchestrator), or none with a name."""
    replicas: Annotated[Replicas, DEFAULTED] = 1  # rules compare it
    """How many pods: ranks go through all tasks in order. Only the last task's can be changed."""
    template: Template
    """The pod that is made once per rank of this task, as spec.template."""


class EngineFields(Written):
    """DI-orchestrator 1.0's place for topology and parallelWorkers."""

    topology: Topology | None = None
    """Same as spec.topology. Absent: the command's, else star, as in DI-orchestrator."""
    parallel_workers: Workers | None = None
    """Same as spec.parallelWorkers."""


class MessageQueue(Written):
    """The transport of events between DI-engine's processes."""

    type: Annotated[Queue, DEFAULTED] = Queue.NNG
    """nng connects the processes with each other, as topology says; with redis each connects to a
    Redis server. torchrpc:cpu, torchrpc:cuda (GPUs send to each other directly) and torchrpc (what
    the pod supports) connect like nng, by torch.distributed.rpc; the image needs dijob-runtime."""
    host: Annotated[str, Field(max_length=253)] = ""
    """Name or IP of a Redis server without a password: DI-engine sends none. Jobs cannot share it:
    DI-engine's channels have the same names in all. Absent, with redis: the operator runs one."""
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = names.REDIS_PORT
    """The Redis server's port. That of a server that the operator runs stays: a job with another
    one is made anew."""

    @property
    def own(self) -> bool:
        """Whether the operator runs a server for the job."""
        return self.type is Queue.REDIS and not self.host


class Restart(Written):
    """Which ranks start again when one is lost."""

    scope: RestartScope | None = None
    """Pod replaces the lost rank, and restarts those that dial its address; the others run on. Job
    restarts all ranks together, for programs that cannot take a member back; where runtime is torch
    or oneflow, also those that have succeeded. Absent: Job for these two, else Pod."""


class OnExitCodes(Written):
    """Which exit codes a rule is about."""

    operator: Literal["In", "NotIn"] = "In"
    """In: one of the values. NotIn: none of them."""
    values: Annotated[tuple[ExitCode, ...], Field(min_length=1, max_length=255)]
    """Exit codes, 1 to 255; 128 + n after signal n (137: SIGKILL, 143: SIGTERM)."""


class OnPodCondition(Written):
    """A condition of a pod that a rule is about."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Its type, e.g. DisruptionTarget: evicted, preempted, or its node lost."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Its status: True, False or Unknown."""


class FailureRule(Written):
    """An action for failures: for all, where it has neither onExitCodes nor onPodConditions."""

    action: FailureAction
    """FailJob ends the job at once. RestartJob restarts all ranks, Restart the failed one, and
    those that dial it if its pod is lost; both are charged to backoffLimit. Ignore does the same as
    Restart, and charges nothing."""
    task: TaskName = ""
    """Only failures of this task's ranks. Absent: failures of any rank."""
    on_exit_codes: OnExitCodes | None = None
    """Exit codes of the container that failed; of the main one, if it did. Needs restartPolicy:
    Never, since a container that restarts in its pod shows its exit code only briefly."""
    on_pod_conditions: (
        Annotated[tuple[OnPodCondition, ...], Field(min_length=1, max_length=20)] | None
    ) = None
    """Conditions of the failed pod; one of them must hold."""


class FailurePolicy(Written):
    """Which failures lead to which action."""

    rules: Annotated[tuple[FailureRule, ...], Field(max_length=MAX_RULES)] = ()
    """The first rule that matches applies. Without a match, a failure means Restart. A disruption
    (an eviction, a preemption, a lost node) costs nothing, except by a rule with
    onPodConditions."""
