"""The options of sbatch and srun: their short names, which take a value, and what one does who has
an option that no field of a DIJob stands for (man sbatch, man srun; Slurm 23.11)."""

from collections.abc import Mapping
from typing import Final

SHORT: Final[Mapping[str, str]] = {
    "A": "account",
    "a": "array",
    "B": "extra-node-info",
    "b": "begin",
    "C": "constraint",
    "c": "cpus-per-task",
    "D": "chdir",
    "d": "dependency",
    "e": "error",
    "F": "nodefile",
    "G": "gpus",
    "H": "hold",
    "i": "input",
    "J": "job-name",
    "K": "kill-on-bad-exit",
    "k": "no-kill",
    "L": "licenses",
    "l": "label",
    "M": "clusters",
    "m": "distribution",
    "N": "nodes",
    "n": "ntasks",
    "O": "overcommit",
    "o": "output",
    "p": "partition",
    "Q": "quiet",
    "q": "qos",
    "r": "relative",
    "S": "core-spec",
    "s": "oversubscribe",
    "t": "time",
    "u": "unbuffered",
    "v": "verbose",
    "W": "wait",
    "w": "nodelist",
    "X": "disable-status",
    "x": "exclude",
    "Z": "no-allocate",
}
# Options that take no value, or one only behind "=".
FLAGS: Final = frozenset(
    [
        "contiguous",
        "disable-status",
        "exact",
        "exclusive",
        "get-user-env",
        "hold",
        "kill-on-bad-exit",
        "label",
        "no-kill",
        "no-requeue",
        "overcommit",
        "overlap",
        "oversubscribe",
        "parsable",
        "pty",
        "quiet",
        "requeue",
        "spread-job",
        "test-only",
        "unbuffered",
        "use-min-nodes",
        "verbose",
        "whole",
        "no-allocate",
        "nice",
        "immediate",
    ]
)
# Those that decide a field; convert.py reads them.
READ: Final = frozenset(
    [
        "nodes",
        "ntasks",
        "ntasks-per-node",
        "cpus-per-task",
        "mem",
        "mem-per-cpu",
        "mem-per-gpu",
        "gres",
        "gpus",
        "gpus-per-node",
        "gpus-per-task",
        "cpus-per-gpu",
        "time",
        "requeue",
        "no-requeue",
        "job-name",
        "chdir",
        "export",
        "array",
        "container-image",
        "container-workdir",
    ]
)
# Those that need nothing: a pod is like that.
NEEDLESS: Final = frozenset(
    [
        "unbuffered",
        "label",
        "verbose",
        "quiet",
        "overlap",
        "exact",
        "parsable",
        "get-user-env",
        "no-kill",
        "test-only",
    ]
)

_PLACE: Final = (
    "a DIJob has no partitions: say in the template's nodeSelector, tolerations or affinity on"
    " which nodes its pods may run"
)
_QUOTA: Final = (
    "who may use how much is the namespace's business: its ResourceQuota, or a queue such as"
    " Kueue's (label kueue.x-k8s.io/queue-name)"
)
_LOGS: Final = "what a program prints is its pod's log: kubectl dijob logs NAME"
_BINDING: Final = "a pod's CPUs are not bound by its job: the kubelet's CPU manager does that"
ADVICE: Final[Mapping[str, str]] = {
    "partition": _PLACE,
    "constraint": "put the label that the nodes have into the template's nodeSelector",
    "nodelist": "name the nodes in the template's nodeAffinity (kubernetes.io/hostname)",
    "exclude": "name the nodes in the template's nodeAffinity, with NotIn",
    "clusters": "a DIJob runs where it is created: choose the kubeconfig's context",
    "account": _QUOTA,
    "qos": _QUOTA,
    "reservation": _QUOTA,
    "wckey": _QUOTA,
    "licenses": _QUOTA,
    "nice": "take spec.priority, or priorityClassName in the template",
    "priority": "take spec.priority, or priorityClassName in the template",
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "input": "a pod has no standard input: mount the file, and open it in the program",
    "mail-type": "nobody is sent a mail: wait with kubectl dijob wait NAME, or let an alert of"
    " Prometheus tell you (docs/operations.md)",
    "mail-user": "nobody is sent a mail: wait with kubectl dijob wait NAME, or let an alert of"
    " Prometheus tell you (docs/operations.md)",
    "exclusive": "ask for all CPUs or GPUs of a node, or keep pods apart by podAntiAffinity",
    "oversubscribe": "pods share a node as far as their requests leave room: lower the requests",
    "overcommit": "pods share a node as far as their requests leave room: lower the requests",
    "dependency": "wait for the other job (kubectl dijob wait OTHER) before you apply this one",
    "begin": "apply it then, or create it with suspend: true and resume it then",
    "hold": "create it with suspend: true, and set it to false to begin",
    "signal": "a pod gets SIGTERM, and SIGKILL after terminationGracePeriodSeconds in the template",
    "tmp": "ask for ephemeral-storage in the container's resources",
    "mpi": "no PMI is in a pod: let the program find its peers by DI_NODES or MASTER_ADDR",
    "kill-on-bad-exit": "a rank that fails starts again, up to backoffLimit; failurePolicy with"
    " action FailJob ends the job instead",
    "container-mounts": "mount volumes in the template: volumes and volumeMounts",
    "multi-prog": "give each program a task of its own (spec.tasks, docs/tasks.md)",
    "pty": "a pod has no terminal: kubectl exec -it opens one while it runs",
    "comment": "an annotation in metadata.annotations is for that",
    **dict.fromkeys(
        ("distribution", "cpu-bind", "mem-bind", "gpu-bind", "hint", "threads-per-core"), _BINDING
    ),
}
UNKNOWN: Final = "no field of a DIJob stands for it"
