"""Every string that others can see: group, labels, annotations, variables, reasons. One place per fact."""

from enum import StrEnum
from typing import Final

GROUP: Final = "diengine.opendilab.org"
VERSION: Final = "v2alpha1"
KIND: Final = "DIJob"
PLURAL: Final = "dijobs"
API_VERSION: Final = f"{GROUP}/{VERSION}"

# Labels on the pods and the service. The operator's watches select on MANAGED_BY.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "dijob-operator"
LABEL_JOB: Final = f"{GROUP}/job"
LABEL_RANK: Final = f"{GROUP}/rank"

# Annotations on the pods, written with each address list: the kubelet turns them into DI_NODE_IPS, DI_EPOCH,
# DI_NUM_NODES, DI_WORLD_SIZE and the file topology.json.
ANNOTATION_IPS: Final = f"{GROUP}/node-ips"
ANNOTATION_EPOCH: Final = f"{GROUP}/epoch"
ANNOTATION_NUM_NODES: Final = f"{GROUP}/num-nodes"
ANNOTATION_WORLD_SIZE: Final = f"{GROUP}/world-size"
ANNOTATION_TOPOLOGY: Final = f"{GROUP}/topology"
# The number of the first list that the pod's process may have been started with. The launcher in the pod starts one
# that has an older list again.
ANNOTATION_RENEW: Final = f"{GROUP}/renew-from"
# The address that the pod had when it was given its list, where lists hold names: another one means a new sandbox.
ANNOTATION_POD_IP: Final = f"{GROUP}/pod-ip"
# When a kubelet that did not pass a list on was last reminded (any change of a pod makes it look again).
ANNOTATION_NUDGED: Final = f"{GROUP}/nudged"
# What the pod was made from: a hash of the user's words.
ANNOTATION_TEMPLATE: Final = f"{GROUP}/template-hash"

# On the DIJob, by hand: while it is there, the operator looks and tells, and touches nothing of the job.
ANNOTATION_PAUSED: Final = f"{GROUP}/paused"

MAIN_CONTAINER: Final = "di-container"
MAIN_PORT: Final = "di-port"
GATE_CONTAINER: Final = "dijob-gate"
BIN_VOLUME: Final = "dijob-bin"
POD_VOLUME: Final = "dijob-pod"
# Where both are mounted.
POD_FOLDER: Final = "/run/dijob"

# DI-engine listens on 50515 + i for its i-th worker (ding/entry/cli_parsers/k8s_parser.py).
BASE_PORT: Final = 50515

# A job keeps at most this many ranks: 1,500 addresses stay inside one environment string (128 KiB).
MAX_REPLICAS: Final = 1500
# Worker processes in one pod.
MAX_WORKERS: Final = 64

# Variables that only the operator may set: a user's own value would make a stranger of the pod.
RESERVED_ENV: Final = (
    "DI_RANK",
    "DI_NODES",
    "DI_NODE_IPS",
    "DI_NODE_IDS",
    "DI_WORLD_SIZE",
    "DI_NUM_NODES",
    "DI_EPOCH",
    "DI_POD_IP",
)


class Topology(StrEnum):
    """Who dials whom (DI-engine's `--topology`)."""

    MESH = "mesh"
    STAR = "star"
    ALONE = "alone"


class Launcher(StrEnum):
    """Whether the operator puts its launcher before the template's command."""

    AUTO = "Auto"
    OFF = "Off"


class Addressing(StrEnum):
    """What the ranks are told of each other."""

    IP = "IP"
    HOSTNAME = "Hostname"


class RestartScope(StrEnum):
    """Who is made anew when a rank is lost."""

    POD = "Pod"
    JOB = "Job"


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
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Condition(StrEnum):
    """The types of a DIJob's conditions."""

    PODS_CREATED = "PodsCreated"
    ADDRESSES_READY = "AddressesReady"
    RUNNING = "Running"
    PEERS_READY = "PeersReady"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"
    # Only there when there is something to say.
    LAUNCHER_BYPASSED = "LauncherBypassed"
    SPEC_WARNING = "SpecWarning"
    SERVICE_READY = "ServiceReady"
    PAUSED = "Paused"
