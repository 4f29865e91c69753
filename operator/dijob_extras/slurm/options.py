"""The options of sbatch and srun (man sbatch, man srun; Slurm 23.11).

The tables contain the short names of the options, and distinguish flags from options with a value.
They also give advice for options that have no corresponding field in a DIJob.
"""

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
# Options without a value, or with a value only after "=". The word after such an option is not its
# value.
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
# Options that convert.py turns into fields.
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
# Options that ask for what a pod does anyway, or that have no meaning for a pod. These options need
# no note.
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
    "Kubernetes has no partitions: select the nodes with nodeSelector, tolerations or affinity in"
    " the template"
)
_QUOTA: Final = (
    "usage is limited per namespace, by a ResourceQuota or by a queue such as Kueue's (label"
    " kueue.x-k8s.io/queue-name)"
)
_LOGS: Final = "a program's output is in its pod's log: kubectl dijob logs NAME"
_MAIL: Final = (
    "Kubernetes sends no mail: wait with kubectl dijob wait NAME, or use a Prometheus alert"
    " (docs/operations.md)"
)
_BINDING: Final = "a job cannot bind its CPUs: the kubelet's CPU manager does that"
ADVICE: Final[Mapping[str, str]] = {
    "partition": _PLACE,
    "constraint": "put the nodes' label into nodeSelector in the template",
    "nodelist": "name the nodes in nodeAffinity in the template (kubernetes.io/hostname)",
    "exclude": "exclude the nodes with a NotIn expression in the template's nodeAffinity",
    "clusters": "when you create the DIJob, use the kubeconfig context of the desired cluster",
    "account": _QUOTA,
    "qos": _QUOTA,
    "reservation": _QUOTA,
    "wckey": _QUOTA,
    "licenses": _QUOTA,
    "nice": "use spec.priority, or priorityClassName in the template",
    "priority": "use spec.priority, or priorityClassName in the template",
    "output": _LOGS,
    "error": _LOGS,
    "open-mode": _LOGS,
    "input": "a pod has no standard input: mount the file, and open it in the program",
    "mail-type": _MAIL,
    "mail-user": _MAIL,
    "exclusive": "request all CPUs or GPUs of a node, or separate the pods with podAntiAffinity",
    "oversubscribe": "pods share a node as long as their requests fit on it: lower the requests",
    "overcommit": "pods share a node as long as their requests fit on it: lower the requests",
    "dependency": "wait for the other job (kubectl dijob wait OTHER) before you apply this one",
    "begin": "apply the job at that time, or create it with suspend: true and resume it then",
    "hold": "create the job with suspend: true, and set suspend to false to start the job",
    "signal": "a pod gets SIGTERM, then SIGKILL after the template's terminationGracePeriodSeconds",
    "tmp": "request ephemeral-storage in the container's resources",
    "mpi": "a pod has no PMI: let the program find its peers through DI_NODES or MASTER_ADDR",
    "kill-on-bad-exit": "a failed rank is restarted, up to backoffLimit; to fail the job instead,"
    " use failurePolicy with the action FailJob",
    "container-mounts": "mount volumes in the template (volumes and volumeMounts)",
    "multi-prog": "create a task for each program (spec.tasks, docs/tasks.md)",
    "pty": "a pod has no terminal: open one with kubectl exec -it while the pod is running",
    "comment": "use an annotation (metadata.annotations)",
    **dict.fromkeys(
        ("distribution", "cpu-bind", "mem-bind", "gpu-bind", "hint", "threads-per-core"), _BINDING
    ),
}
UNKNOWN: Final = "a DIJob has no field for this option"
