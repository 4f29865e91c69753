"""Every string that is visible outside the operator: group, labels, annotations, variables, and the
values of fields. The reasons of conditions are in reasons/.

These strings are the operator's interface: running pods, users' selectors and other versions of the
operator depend on them. They are in one module so that a change to one of them is noticed.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

GROUP: Final = "diengine.opendilab.org"
VERSION: Final = "v2alpha1"
KIND: Final = "DIJob"
PLURAL: Final = "dijobs"
API_VERSION: Final = f"{GROUP}/{VERSION}"


def owner_key(namespace: str, name: str, uid: str) -> str:
    """Return the key under which the operator groups the children of a job.

    The uid alone is not enough: anyone who can create objects can write it into an ownerReference,
    in any namespace.
    """
    return f"{namespace}/{name}/{uid}"


# Labels of the pods and the service. The operator's watches select objects by MANAGED_BY.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "dijob-operator"
# The value of spec.managedBy that selects this operator.
OWN_MANAGER: Final = f"{GROUP}/{MANAGER}"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_RANK: Final = f"{GROUP}/rank"
# The pod of the job's own Redis server has this label. That pod is not a rank, so it does not have
# LABEL_JOB.
LABEL_SERVER: Final = f"{GROUP}/redis-of"
# The labels whose value is the job's name: one for ranks, one for the job's own Redis server.
OWNER_LABELS: Final = (LABEL_JOB, LABEL_SERVER)

# Annotations of the pods, written with each peer list. The kubelet turns them into DI_NODES,
# DI_NODE_IPS, DI_LIST_NUMBER, DI_NUM_NODES, DI_WORLD_SIZE and the file topology.json. With
# `addressing: Hostname` the list has names, and there is no DI_NODE_IPS.
ANNOTATION_IPS: Final = f"{GROUP}/node-ips"
ANNOTATION_LIST_NUMBER: Final = f"{GROUP}/list-number"
ANNOTATION_NUM_NODES: Final = f"{GROUP}/num-nodes"
ANNOTATION_WORLD_SIZE: Final = f"{GROUP}/world-size"
ANNOTATION_TOPOLOGY: Final = f"{GROUP}/topology"
# The name of a task is appended to this prefix. The annotation with the resulting name contains the
# task's part of the peer list.
ANNOTATION_TASK_NODES: Final = f"{GROUP}/nodes-"
# The oldest revision of the peer list with which the pod's process may run. If the process has an
# older revision, the launcher in the pod restarts the process.
ANNOTATION_RENEW: Final = f"{GROUP}/renew-from"
# The IP that the pod had when it got its peer list, if that list contains names. If the pod has a
# different IP now, it has a new sandbox. A list of IPs needs no such annotation.
ANNOTATION_POD_IP: Final = f"{GROUP}/pod-ip"
# Identifies the run of the job's own Redis server that was current when the pod got its peer list.
# After the loss of a server, this annotation shows which pods still belong to the old run.
ANNOTATION_BROKER: Final = f"{GROUP}/broker"
# Some variables of runtimes (core/render/runtimes) need the peer list in another form. Those
# variables get their values from these annotations.
ANNOTATION_MASTER: Final = f"{GROUP}/master-addr"
ANNOTATION_NODELIST: Final = f"{GROUP}/slurm-nodelist"
ANNOTATION_MACHINES: Final = f"{GROUP}/oneflow-nodes"
# The shape of the pod's containers, recorded before the containers started
# (core/observed/shape.py). The shape consists of those fields of the container specs
# that make the kubelet restart a container when they change.
ANNOTATION_SHAPE: Final = f"{GROUP}/container-shape"
# How many terminations of the program the operator has counted. After a failure the launcher waits
# until the operator has counted it, so that the program does not run again after its last permitted
# failure (docs/decisions/046).
ANNOTATION_ENDS: Final = f"{GROUP}/ends-counted"
# Any new value requests the stack of the program's main thread. This annotation is only in messages
# to launchers, never on a pod (controller/channel/launchers.py).
ANNOTATION_STACKS: Final = f"{GROUP}/stacks"
# When the operator last prompted a kubelet to pass on a peer list. Any change to a pod
# makes its kubelet sync the pod again.
ANNOTATION_REMINDED: Final = f"{GROUP}/reminded"
# Tells readers of `kubectl describe pod` why the operator terminated the pod. (The operator keeps
# terminated pods for their logs.)
ANNOTATION_ENDED: Final = f"{GROUP}/ended"
# The engine with which the pod was created (spec.scheduling). Pods without an engine do not have
# this annotation.
ANNOTATION_ENGINE: Final = f"{GROUP}/scheduling-engine"
# On a Kueue Workload: a digest of the data from which the Workload was created.
ANNOTATION_WORKLOAD: Final = f"{GROUP}/workload-digest"
# Kueue's labels on the DIJob: the LocalQueue, the WorkloadPriorityClass, and how many seconds the
# job may run (pkg/controller/constants in Kueue's source).
KUEUE_GROUP: Final = "kueue.x-k8s.io"
KUEUE_QUEUE: Final = f"{KUEUE_GROUP}/queue-name"
KUEUE_PRIORITY: Final = f"{KUEUE_GROUP}/priority-class"
KUEUE_SECONDS: Final = f"{KUEUE_GROUP}/max-exec-time-seconds"
# On a DIJob with tasks: the last task and its `replicas`, as they were when the operator last
# compared them with spec.replicas (api/last_task.py).
ANNOTATION_LAST_TASK: Final = f"{GROUP}/last-task"
# Annotations of a Workload that replaces a smaller one of the same job.
KUEUE_ELASTIC: Final = f"{KUEUE_GROUP}/elastic-job"
KUEUE_REPLACES: Final = f"{KUEUE_GROUP}/workload-slice-replacement-for"
# A hash of the part of the spec from which a pod, or the job's NetworkPolicy, was created.
ANNOTATION_TEMPLATE: Final = f"{GROUP}/template-hash"

# On a DIJob with a time to live: the uid of the job. The annotation is set only if the operator
# keeps a history. It means that the history has the job's record and logs, so the job can be
# deleted (docs/decisions/069).
ANNOTATION_RECORDED: Final = f"{GROUP}/recorded"

# A Kubernetes annotation: the container that kubectl uses if the user names none.
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# Users set this annotation on a DIJob. While a DIJob has this annotation, the operator updates the
# job's status and changes nothing else.
ANNOTATION_PAUSED: Final = f"{GROUP}/paused"

# Labels and annotations that DI-orchestrator sets. This operator sets them too, so that existing
# selectors keep working (docs/migration.md).
LEGACY_OPERATOR: Final = "diengine/operator"
LEGACY_OPERATOR_NAME: Final = "di-operator"
LEGACY_GROUP: Final = "diengine/group"
LEGACY_JOB: Final = "diengine/job"
LEGACY_POD: Final = "diengine/pod"
LEGACY_RANK: Final = "diengine/rank"
LEGACY_TASK_TYPE: Final = "diengine/task-type"
LEGACY_TASK_NAME: Final = "diengine/task-name"
LEGACY_TASK_RANK: Final = "diengine/task-rank"
LEGACY_REPLICAS: Final = "diengine/replicas"
# The status field that holds the objects that jobs post to the HTTP server. The name is
# DI-orchestrator's.
REPORTED: Final = "profilings"

# The history. The API server removes the Authorization header before it forwards a request to a
# Service. So clients also send their token in the following header.
HISTORY_TOKEN_HEADER: Final = "X-DIJob-Token"
HISTORY_PATH: Final = "/v1/jobs"

MAIN_CONTAINER: Final = "di-container"
MAIN_PORT: Final = "di-port"
# Init containers: one copies the operator's programs into the pod, one waits for the peer list.
LAUNCHER_CONTAINER: Final = "dijob-launcher"
GATE_CONTAINER: Final = "dijob-gate"
BIN_VOLUME: Final = "dijob-bin"
POD_VOLUME: Final = "dijob-pod"
LAUNCHER_VOLUME: Final = "dijob-launcher"
SERVER_VOLUME: Final = "dijob-server"
# The folder for the operator's mounts. BIN_VOLUME is mounted at this folder, and POD_VOLUME at its
# subfolder pod/. If the launcher's image is mounted as a volume, the mount is at the subfolder
# bin/.
MOUNT_FOLDER: Final = "/run/dijob"

# DI-engine listens on 50515 + i for its i-th worker (ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT: Final = 50515

# The taints that Kubernetes sets on nodes that are unreachable or not Ready.
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# How long the pods of jobs tolerate these taints by default. Kubernetes' own default of 300 s would
# stop all ranks of a job for five minutes (docs/decisions/041).
LOST_NODE_SECONDS: Final = 30

# The largest job. The addresses of 1,500 ranks fit into one environment string (128 KiB).
MAX_REPLICAS: Final = 1500
# The Lease with which a release claims a namespace. The chart grants permissions for this name
# only.
CLAIM: Final = "dijob-operator"
# The Redis server is named JOB-mq. The suffix has only two letters, so that the name fits even with
# the longest job name.
SERVER_SUFFIX: Final = "mq"
# Redis' default port.
REDIS_PORT: Final = 6379

# The maximum number of worker processes in one pod.
MAX_WORKERS: Final = 64

# The maximum number of tasks of one job: a learner, an evaluator, several collectors, and some to
# spare.
MAX_TASKS: Final = 8

# Variables that only the operator may set. If one of these variables had another value, the rank
# would not belong to the job's world.
RESERVED_ENV: Final = (
    "DI_RANK",
    "DI_NODES",
    "DI_NODE_IPS",
    "DI_NODE_IDS",
    "DI_WORLD_SIZE",
    "DI_NUM_NODES",
    "DI_LIST_NUMBER",
    "DI_POD_IP",
)
# The values of spec.successPolicy that are not names of tasks.
ALL_REPLICAS: Final = "AllReplicas"
RANK_0: Final = "Rank0"

# Conditions that are part of every pod's normal life cycle. None of them indicates a failure.
ORDINARY_CONDITIONS: Final = (
    "PodReadyToStartContainers",
    "PodScheduled",
    "Initialized",
    "ContainersReady",
    "Ready",
)


def nodes_variable(task: str) -> str:
    """Return the name of the variable that contains a task's addresses, such as DI_MY_TASK_NODES.

    The form is that of DI-orchestrator 1.1 (pkg/context/pod.go).
    """
    return f"DI_{task_word(task)}_NODES"


def task_word(task: str) -> str:
    """Return a task's name as it appears in the name of a variable."""
    return task.upper().replace("-", "_")


class Topology(StrEnum):
    """Which ranks connect to which (DI-engine's `--topology`)."""

    MESH = "mesh"
    STAR = "star"
    ALONE = "alone"


@dataclass(frozen=True)
class RuntimeTraits:
    """A runtime's requirements for its jobs.

    Some of the runtime's variables depend on the peer list. They get their values from the pod
    annotations in `annotations`.
    """

    # Programs of this runtime cannot accept a returning member, so all ranks restart when one is
    # lost.
    fixed_membership: bool = False
    # The runtime addresses its nodes only by name.
    requires_hostnames: bool = False
    # All nodes of the runtime must have the same GPUs. The names of the nodes may differ only in a
    # numeric suffix. So the runtime's jobs cannot have tasks.
    homogeneous: bool = False
    annotations: tuple[str, ...] = ()


class Runtime(StrEnum):
    """The runtime whose variables a process gets in addition to the DI_ variables
    (core/render/runtimes).
    """

    traits: RuntimeTraits

    def __new__(cls, value: str, traits: RuntimeTraits) -> "Runtime":
        # Each member of this enum is a string, and has an attribute `traits`.
        member = str.__new__(cls, value)
        member._value_, member.traits = value, traits
        return member

    DITASK = "ditask", RuntimeTraits()
    TORCH = "torch", RuntimeTraits(fixed_membership=True, annotations=(ANNOTATION_MASTER,))
    SLURM = (
        "slurm",
        RuntimeTraits(
            requires_hostnames=True, homogeneous=True, annotations=(ANNOTATION_NODELIST,)
        ),
    )
    ONEFLOW = (
        "oneflow",
        RuntimeTraits(
            fixed_membership=True,
            homogeneous=True,
            annotations=(ANNOTATION_MASTER, ANNOTATION_MACHINES),
        ),
    )


class Queue(StrEnum):
    """The transport of events between DI-engine's processes (`--mq-type`)."""

    NNG = "nng"
    REDIS = "redis"
    TORCHRPC = "torchrpc"
    TORCHRPC_CPU = "torchrpc:cpu"
    TORCHRPC_CUDA = "torchrpc:cuda"


# With these queues, processes listen and connect to each other according to the topology. With
# Redis, processes connect only to the server.
DIALLING: Final = tuple(queue for queue in Queue if queue is not Queue.REDIS)


class Launcher(StrEnum):
    """Whether the operator puts its launcher before the template's command."""

    AUTO = "Auto"
    OFF = "Off"


class Addressing(StrEnum):
    """The form of the addresses in a peer list: the pods' IPs, or their names."""

    IP = "IP"
    HOSTNAME = "Hostname"


class ServicePolicy(StrEnum):
    """When a job has a headless service: only if it uses names, or always."""

    AUTO = "Auto"
    ALWAYS = "Always"


class RestartScope(StrEnum):
    """Which ranks restart when one is lost. Pod: this rank and those that connect to it. Job:
    all."""

    POD = "Pod"
    JOB = "Job"


class TopologyMode(StrEnum):
    """Whether the ranks of a job wait until one topology domain has enough capacity for all of
    them.
    """

    REQUIRED = "Required"
    PREFERRED = "Preferred"


@dataclass(frozen=True)
class EngineTraits:
    """What a job can ask of an engine.

    `queue`: spec.scheduling.queue selects one of the engine's queues. `topology` contains the
    supported modes of spec.scheduling.topology. `own_group` contains the keys of
    labels and annotations. Users set one of these keys in a pod template to put the template's pods
    into a separate group.
    """

    queue: bool = False
    topology: frozenset[TopologyMode] = frozenset(TopologyMode)
    own_group: tuple[str, ...] = ()


class Engine(StrEnum):
    """The scheduler, or the queue, that gives nodes to the ranks of a job as a group
    (core/render/scheduling). None: each pod is scheduled on its own.
    """

    NONE = "None"
    NATIVE = "Native"
    VOLCANO = "Volcano"
    COSCHEDULING = "Coscheduling"
    YUNIKORN = "YuniKorn"
    KAI = "KAI"
    KUEUE = "Kueue"

    @property
    def traits(self) -> EngineTraits:
        """What a job can ask of the engine."""
        return _ENGINE_TRAITS.get(self, EngineTraits())


# The labels and annotations by which the schedulers recognize the group of a pod.
VOLCANO_GROUP = "scheduling.k8s.io/group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
YUNIKORN_GROUPS = "yunikorn.apache.org/task-groups"
KAI_GROUP = "pod-group-name"

_ENGINE_TRAITS = {
    Engine.NATIVE: EngineTraits(topology=frozenset({TopologyMode.REQUIRED})),
    Engine.VOLCANO: EngineTraits(queue=True, own_group=(VOLCANO_GROUP,)),
    Engine.COSCHEDULING: EngineTraits(topology=frozenset(), own_group=(COSCHEDULING_GROUP,)),
    Engine.YUNIKORN: EngineTraits(
        queue=True, topology=frozenset(), own_group=(YUNIKORN_GROUPS, "applicationId")
    ),
    Engine.KAI: EngineTraits(queue=True, topology=frozenset(), own_group=(KAI_GROUP,)),
}


class TaskType(StrEnum):
    """The role of a task in the algorithm (DI-orchestrator 1.1, dijob_types.go)."""

    LEARNER = "learner"
    COLLECTOR = "collector"
    EVALUATOR = "evaluator"
    NONE = "none"


class Priority(StrEnum):
    """The two priorities of DI-orchestrator. The operator's configuration maps each of them to a
    priority class.
    """

    NORMAL = "normal"
    HIGH = "high"


class FailureAction(StrEnum):
    """The operator's reaction to a failure."""

    FAIL_JOB = "FailJob"
    RESTART_JOB = "RestartJob"
    RESTART = "Restart"
    IGNORE = "Ignore"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job has ended."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class Phase(StrEnum):
    """A one-word, human-readable summary of the job's state. Programs should read the
    conditions.
    """

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class StallPolicy(StrEnum):
    """The operator's reaction to a training run that makes no progress: report it, or restart the
    slowest task once.
    """

    REPORT = "Report"
    RESTART = "Restart"


class Activity(StrEnum):
    """What a job is spending its time on. A job has exactly one activity at any time."""

    WAITING = "Waiting"
    STARTING = "Starting"
    RUNNING = "Running"
    RECOVERING = "Recovering"
    ENDED = "Ended"
