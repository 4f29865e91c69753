"""Classifies the end of a pod as a disruption by the cluster or as its own failure, from its raw
status.

Disruptions do not count against backoffLimit, as in a Kubernetes Job. The condition
DisruptionTarget covers most of them, but a kubelet that rejects a pod does not set it.
"""

from collections.abc import Mapping
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.endings import ContainerEnding

Body = Mapping[str, Any]

# The message prefix of each pod that a kubelet does not admit, whatever the reason (1.30 to 1.34,
# pkg/kubelet: rejectPod).
REJECTED = "Pod was rejected"
# The reasons, for kubelets with another message: rejections by a node (pkg/kubelet: predicate.go
# and admissionRejectionReasons), and ends in favor of another pod. A pod that is ended because of
# its own behavior is not a disruption: Evicted for using too much disk (an eviction that protects
# the node has the condition DisruptionTarget), DeadlineExceeded.
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
    """Whether the cluster has ended the pod, or has selected it to be ended."""
    if is_targeted(status):
        return True
    reason, message = status.get("reason") or "", status.get("message") or ""
    rejected = status.get("phase") == "Failed" and (
        message.startswith(REJECTED) or reason.startswith("OutOf")
    )
    return rejected or reason in DISRUPTIONS


def went_down_with_its_node(status: Body, ended: ContainerEnding | None) -> bool:
    """Whether a pod that does not restart went down with its node. Then the end of its container
    was not observed, and its program is not to blame. A status with a reason means that the pod was
    ended on purpose instead.
    """
    return containers.is_unobserved_end(ended) and not status.get("reason")


def was_ended(status: Body) -> bool:
    """Whether a Failed pod was ended from outside, whatever its exit code. Only then does the
    kubelet set a reason. A pod that it marks Succeeded had ended by itself before (1.34,
    pkg/kubelet: evictPod, nodeshutdown, preemption).
    """
    return status.get("phase") == "Failed" and bool(status.get("reason") or is_targeted(status))


def is_targeted(status: Body) -> bool:
    """Whether the pod has been selected to be ended (condition DisruptionTarget)."""
    conditions = status.get("conditions") or ()
    return any(
        c.get("type") == "DisruptionTarget" and c.get("status") == "True" for c in conditions
    )
