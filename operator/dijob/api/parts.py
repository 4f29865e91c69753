"""The parts of a spec: what a user writes below its fields."""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from dijob import names
from dijob.api.status import Stored
from dijob.api.traits import DEFAULTED
from dijob.names import FailureAction, Queue, RestartScope, TaskType, Topology

Replicas = Annotated[int, Field(strict=True, ge=1, le=names.MAX_REPLICAS)]
Workers = Annotated[int, Field(strict=True, ge=1, le=names.MAX_WORKERS)]
Seconds = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]
ExitCode = Annotated[int, Field(strict=True, ge=1, le=255, description="One exit code.")]
# Kubernetes bounds annotations at 256 KiB in sum, label values at 63 characters.
Labels = Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=64)]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=65536)]], Field(max_length=64)]
# Of a task: the pods are named JOB-TASK-INDEX, which has to fit into 63 characters with the job's name.
TaskName = Annotated[str, Field(max_length=40)]
MAX_RULES: Final = 20


class Written(Stored):
    """What a user wrote: an unknown field is a slip, and is said."""

    model_config = ConfigDict(extra="forbid")


class TemplateMetadata(Written):
    """Labels and annotations of the pods."""

    labels: Labels | None = None
    """Labels that every pod gets besides the operator's. Keys below diengine.opendilab.org/ are refused."""
    annotations: Annotations | None = None
    """Annotations that every pod gets. Keys below diengine.opendilab.org/ are refused."""


class Template(Written):
    """The pod that is made once per rank, written as in a Deployment or a Job."""

    metadata: TemplateMetadata = TemplateMetadata()
    """Labels and annotations of the pods."""
    spec: dict[str, Any] | None = None
    """The pod's spec, anything that Kubernetes knows. The main container is the one named di-container, else
    the first. restartPolicy is OnFailure or Never. The operator adds the variables of the topology (DI_RANK,
    DI_NODES, DI_NODE_IPS, ...), a gate as the last init container, and its launcher before `command`."""
    containers: list[Any] | None = None
    """Never write this: containers belongs under template.spec. Known only so that the refusal can say so."""


class Task(Written):
    """Some of the job's ranks, with a pod of their own kind."""

    name: TaskName = ""
    """Its pods are named JOB-NAME-INDEX, its addresses stand in DI_<NAME>_NODES. Absent: the type. Unique."""
    type: TaskType
    """learner, collector or evaluator (one task of each at most, as in DI-orchestrator), or none, with a name."""
    replicas: Annotated[Replicas, DEFAULTED] = 1  # rules compare it
    """How many pods: ranks go through all tasks, in their order. Only the last task's can be changed."""
    template: Template
    """The pod that is made once per rank of this task, as spec.template."""


class EngineFields(Written):
    """DI-orchestrator 1.0's place for topology and parallelWorkers."""

    topology: Topology | None = None
    """As spec.topology. Absent: what the command says, else star, as there."""
    parallel_workers: Workers | None = None
    """As spec.parallelWorkers."""


class MessageQueue(Written):
    """What carries the events between DI-engine's processes."""

    type: Queue = Queue.NNG
    """nng connects the processes with each other, as topology says; with redis each connects to a Redis server.
    torchrpc:cpu, torchrpc:cuda (GPUs send to each other directly) and torchrpc (whichever the pod can) connect as nng
    does, over torch.distributed.rpc; the image needs dijob-runtime."""
    host: Annotated[str, Field(max_length=253)] = ""
    """The Redis server's name or IP, without a password: DI-engine knows none. One job has it for itself, since
    DI-engine's channels have no job's name in them. Absent, with redis: the operator runs a server for this job."""
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = names.REDIS_PORT
    """The Redis server's port."""

    @property
    def own(self) -> bool:
        """Whether the operator runs a server for the job."""
        return self.type is Queue.REDIS and not self.host


class Restart(Written):
    """What is made anew when a rank is lost."""

    scope: RestartScope | None = None
    """Pod makes the lost rank anew, and those that dial its address; the others run on. Job makes all ranks anew
    together, for programs that cannot take a member back. Absent: Job where runtime is torch or oneflow, else Pod."""


class OnExitCodes(Written):
    """Which exit codes a rule is about."""

    operator: Literal["In", "NotIn"] = "In"
    """In: one of the values. NotIn: none of them."""
    values: Annotated[tuple[ExitCode, ...], Field(min_length=1, max_length=255)]
    """Exit codes, 1 to 255; 128 + n where signal n ended the program (137: killed, 143: asked to end)."""


class OnPodCondition(Written):
    """A condition of a pod that a rule is about."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """Its type, e.g. DisruptionTarget: evicted, preempted, or its node lost."""
    status: Literal["True", "False", "Unknown"] = "True"
    """Its status: True, False or Unknown."""


class FailureRule(Written):
    """What the failure of a rank leads to. A rule without onExitCodes and onPodConditions is about every failure."""

    action: FailureAction
    """FailJob ends the job at once. RestartJob makes all ranks anew, Restart only those that it must; both are charged
    to backoffLimit. Ignore does as Restart does, and charges nothing."""
    task: TaskName = ""
    """Only failures of this task's ranks. Absent: of all."""
    on_exit_codes: OnExitCodes | None = None
    """Exit codes of the container that failed: the main one, where it did. Needs restartPolicy: Never, since a
    container that is started again in its pod shows its exit code only in passing."""
    on_pod_conditions: Annotated[tuple[OnPodCondition, ...], Field(min_length=1, max_length=20)] | None = None
    """Conditions of the failed pod, of which one holds."""


class FailurePolicy(Written):
    """What failures lead to."""

    rules: Annotated[tuple[FailureRule, ...], Field(max_length=MAX_RULES)] = ()
    """The first rule that matches counts. Without a match: disruptions cost nothing, all else is Restart.
    A disruption (an eviction, a preemption, a lost node) is no failure but for a rule with onPodConditions.
    """
