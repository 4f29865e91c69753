"""Every string that others can see: group, labels, annotations, variables, values of fields. The
reasons of conditions are in reasons/.
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
    """A job as its children name it: a uid alone could be written into a reference by anybody, in
    any namespace.
    """
    return f"{namespace}/{name}/{uid}"


# Labels on the pods and the service. The operator's watches select on MANAGED_BY.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "dijob-operator"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_RANK: Final = f"{GROUP}/rank"
# On the pod of the job's own Redis server, which is none of its ranks.
LABEL_SERVER: Final = f"{GROUP}/redis-of"
# The labels that lead from an object to its job: a rank's, and that of the job's own Redis server.
OWNER_LABELS: Final = (LABEL_JOB, LABEL_SERVER)

# Annotations on the pods, written with each address list (of names with `addressing: Hostname`,
# and then without DI_NODE_IPS): the kubelet turns them into DI_NODES, DI_NODE_IPS,
# DI_LIST_NUMBER, DI_NUM_NODES, DI_WORLD_SIZE and the file topology.json.
ANNOTATION_IPS: Final = f"{GROUP}/node-ips"
ANNOTATION_LIST_NUMBER: Final = f"{GROUP}/list-number"
ANNOTATION_NUM_NODES: Final = f"{GROUP}/num-nodes"
ANNOTATION_WORLD_SIZE: Final = f"{GROUP}/world-size"
ANNOTATION_TOPOLOGY: Final = f"{GROUP}/topology"
# With a task's name behind it: the task's part of the list.
ANNOTATION_TASK_NODES: Final = f"{GROUP}/nodes-"
# The number of the first list that the pod's process may have been started with. The launcher in
# the pod starts one that has an older list again.
ANNOTATION_RENEW: Final = f"{GROUP}/renew-from"
# The address that the pod had when it was given its list, where lists hold names: another one means
# a new sandbox.
ANNOTATION_POD_IP: Final = f"{GROUP}/pod-ip"
# The run of the job's own Redis server for which the pod was given its list.
ANNOTATION_BROKER: Final = f"{GROUP}/broker"
# What the variables of a runtime (core/render/runtimes) take from the list, where that is neither
# list nor number.
ANNOTATION_MASTER: Final = f"{GROUP}/master-addr"
ANNOTATION_NODELIST: Final = f"{GROUP}/slurm-nodelist"
ANNOTATION_MACHINES: Final = f"{GROUP}/oneflow-nodes"
# The shape of the pod's containers before they started (core/observed/shape.py).
ANNOTATION_SHAPE: Final = f"{GROUP}/container-shape"
# How many ends of the program are counted: after a failure, the launcher waits for that.
ANNOTATION_ENDS: Final = f"{GROUP}/ends-counted"
# When a kubelet that did not pass a list on was last reminded (any change of a pod makes it look
# again).
ANNOTATION_REMINDED: Final = f"{GROUP}/reminded"
# Why a pod was ended that keeps its logs, for whoever reads `kubectl describe pod`.
ANNOTATION_ENDED: Final = f"{GROUP}/ended"
# What a pod, or the job's NetworkPolicy, was made from: a hash of the user's words.
ANNOTATION_TEMPLATE: Final = f"{GROUP}/template-hash"

# Kubernetes' own: which container of a pod kubectl takes if it is not given one.
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

# On the DIJob, by hand: while it is there, the operator looks and tells, and touches nothing of the
# job.
ANNOTATION_PAUSED: Final = f"{GROUP}/paused"

# What DI-orchestrator writes on its pods, and so do we, for the selectors of its users
# (docs/migration.md).
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
# Of the status: what jobs post to the HTTP server, which has it in DI-orchestrator's field.
REPORTED: Final = "profilings"

MAIN_CONTAINER: Final = "di-container"
MAIN_PORT: Final = "di-port"
# Init containers: the one that brings the operator's programs, and the one that waits for the list.
LAUNCHER_CONTAINER: Final = "dijob-launcher"
GATE_CONTAINER: Final = "dijob-gate"
BIN_VOLUME: Final = "dijob-bin"
POD_VOLUME: Final = "dijob-pod"
LAUNCHER_VOLUME: Final = "dijob-launcher"
SERVER_VOLUME: Final = "dijob-server"
# The folder of what the operator mounts: BIN_VOLUME there, POD_VOLUME at pod/ in it, and where the
# launcher's image is a volume, that at bin/.
MOUNT_FOLDER: Final = "/run/dijob"

# DI-engine listens on 50515 + i for its i-th worker (ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT: Final = 50515

# How Kubernetes marks nodes that are not Ready, or silent.
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
# How long pods of jobs tolerate that, unless their job, their template or the operator says
# otherwise (docs/decisions/041).
LOST_NODE_SECONDS: Final = 30

# A job keeps at most this many ranks: 1,500 addresses stay inside one environment string (128 KiB).
MAX_REPLICAS: Final = 1500
# The Lease by which a release claims a namespace; the chart grants rights on this name.
CLAIM: Final = "dijob-operator"
# JOB-mq: two letters, so that the longest job's name has room for it.
SERVER_SUFFIX: Final = "mq"
# Redis's own.
REDIS_PORT: Final = 6379

# Worker processes in one pod.
MAX_WORKERS: Final = 64

# Tasks of one job: a learner, an evaluator, collectors, and what else there may be.
MAX_TASKS: Final = 8

# Variables that only the operator may set: a user's own value would make a stranger of the pod.
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
# spec.successPolicy, where it is not the name of a task.
ALL_REPLICAS: Final = "AllReplicas"
RANK_0: Final = "Rank0"

# Conditions that every pod goes through: none of them shows a failure.
ORDINARY_CONDITIONS: Final = (
    "PodReadyToStartContainers",
    "PodScheduled",
    "Initialized",
    "ContainersReady",
    "Ready",
)


def nodes_variable(task: str) -> str:
    """The variable with a task's addresses, as in DI-orchestrator 1.1 (pkg/context/pod.go):
    DI_MY_TASK_NODES.
    """
    return f"DI_{task_word(task)}_NODES"


def task_word(task: str) -> str:
    """A task's name as a part of a variable's."""
    return task.upper().replace("-", "_")


class Topology(StrEnum):
    """Who dials whom (DI-engine's `--topology`)."""

    MESH = "mesh"
    STAR = "star"
    ALONE = "alone"


@dataclass(frozen=True)
class RuntimeTraits:
    """What a runtime demands of its job. `annotations` hold what its variables take from a list."""

    # Its programs cannot take a member back: all ranks start again when one is lost.
    fixed_membership: bool = False
    # It knows its nodes by name only.
    requires_hostnames: bool = False
    # Its nodes are alike (names, GPUs), so a job of it has no tasks.
    homogeneous: bool = False
    annotations: tuple[str, ...] = ()


class Runtime(StrEnum):
    """Whose environment a process gets besides the DI_ variables (core/render/runtimes)."""

    traits: RuntimeTraits

    def __new__(cls, value: str, traits: RuntimeTraits) -> "Runtime":
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
    """What carries the events between DI-engine's processes (`--mq-type`)."""

    NNG = "nng"
    REDIS = "redis"
    TORCHRPC = "torchrpc"
    TORCHRPC_CPU = "torchrpc:cpu"
    TORCHRPC_CUDA = "torchrpc:cuda"


# The queues whose processes listen and dial each other, as topology says.
DIALLING: Final = tuple(queue for queue in Queue if queue is not Queue.REDIS)


class Launcher(StrEnum):
    """Whether the operator puts its launcher before the template's command."""

    AUTO = "Auto"
    OFF = "Off"


class Addressing(StrEnum):
    """What an address list has of each rank: the pod's IP, or its name."""

    IP = "IP"
    HOSTNAME = "Hostname"


class ServicePolicy(StrEnum):
    """When a job has its headless service: where names are used, or always."""

    AUTO = "Auto"
    ALWAYS = "Always"


class RestartScope(StrEnum):
    """Which ranks start again when one is lost: Pod, it and those that dial it; Job, all."""

    POD = "Pod"
    JOB = "Job"


class TaskType(StrEnum):
    """What a task is to the algorithm (DI-orchestrator 1.1, dijob_types.go)."""

    LEARNER = "learner"
    COLLECTOR = "collector"
    EVALUATOR = "evaluator"
    NONE = "none"


class Priority(StrEnum):
    """DI-orchestrator's two priorities; the operator's values say which priority class each of them
    is.
    """

    NORMAL = "normal"
    HIGH = "high"


class FailureAction(StrEnum):
    """What a failure leads to."""

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
    """One word for people; programs read the conditions."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    TERMINATING = "Terminating"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
