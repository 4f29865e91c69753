"""Classifies the end of a pod, from the pod's raw status: either the cluster has disrupted the pod,
or the pod itself has failed.

Disruptions do not count against backoffLimit, as in a Kubernetes Job. The condition
DisruptionTarget covers most of them, but a kubelet that rejects a pod does not set it.
"""

from collections.abc import Mapping
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.endings import ContainerEnding

Body = Mapping[str, Any]

# The prefix of the status message of every pod that a kubelet does not admit, whatever the reason
# (1.30 to 1.34, pkg/kubelet: rejectPod).
REJECTED = "Pod was rejected"
# Status reasons that show a disruption even if the message does not begin with REJECTED. Most of
# them mean that a node rejected the pod (pkg/kubelet: predicate.go and admissionRejectionReasons).
# The others mean that the node was lost or shut down, or that the kubelet ended the pod in favor of
# another pod. The list does not include reasons that the pod's own behavior causes:
# DeadlineExceeded, and Evicted for too much disk use. A pod that is evicted to protect the node has
# the condition DisruptionTarget.
DISRUPTIONS = (
    "AppArmor",
    "InvalidNodeInfo",
    "NodeAffinity",
    "NodeLost",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
    "PodLevelResourcesNotSupported",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
    "Preempting",
    "SMTAlignmentError",
    "Shutdown",
    "SupplementalGroupsPolicyNotSupported",
    "SysctlForbidden",
    "TaintToleration",
    "Terminated",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "UnexpectedPredicateFailureType",
    "UnknownReason",
    "VolumeAttachmentLimitExceeded",
)


def is_disrupted(status: Body) -> bool:
    """Whether the cluster has ended the pod, or has selected it for termination."""
    if is_targeted(status):
        return True
    reason, message = status.get("reason") or "", status.get("message") or ""
    rejected = status.get("phase") == "Failed" and (
        message.startswith(REJECTED) or reason.startswith("OutOf")
    )
    return rejected or reason in DISRUPTIONS


def went_down_with_its_node(status: Body, ended: ContainerEnding | None) -> bool:
    """Whether a pod that does not restart went down with its node. If so, the end of the pod's
    container was not observed, and the program is not to blame. A status with a reason means that
    the pod was terminated on purpose instead.
    """
    return containers.is_unobserved_end(ended) and not status.get("reason")


def was_ended(status: Body) -> bool:
    """Whether a Failed pod was terminated from outside, whatever its exit code. The kubelet sets a
    reason only in the status of such a pod. A pod that the kubelet marks Succeeded has ended on its
    own (1.34, pkg/kubelet: evictPod, nodeshutdown, preemption).
    """
    return status.get("phase") == "Failed" and bool(status.get("reason") or is_targeted(status))


def is_targeted(status: Body) -> bool:
    """Whether the pod has been selected for termination (condition DisruptionTarget)."""
    conditions = status.get("conditions") or ()
    return any(
        c.get("type") == "DisruptionTarget" and c.get("status") == "True" for c in conditions
    )
