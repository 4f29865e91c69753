"""Whose doing the end of a pod was: the cluster's, or its own (read from its raw status)."""

from collections.abc import Mapping
from typing import Any

from dijob.core.observed import containers
from dijob.core.observed.endings import Ending

Body = Mapping[str, Any]

# What a kubelet says of each pod that it does not admit, whatever the reason (1.30 to 1.34,
# pkg/kubelet: rejectPod).
REJECTED = "Pod was rejected"
# The reasons by themselves, for kubelets that use other words: the checks of a node (pkg/kubelet:
# predicate.go and admissionRejectionReasons), and what ends a pod for another's sake. Who is ended
# for its own sake is not here: Evicted for more disk than it may use (an eviction for the node's
# sake has the condition DisruptionTarget), DeadlineExceeded.
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


def disrupted(status: Body) -> bool:
    """Whether the cluster has ended the pod, or has chosen it to go."""
    if targeted(status):
        return True
    reason, message = status.get("reason") or "", status.get("message") or ""
    rejected = status.get("phase") == "Failed" and (
        message.startswith(REJECTED) or reason.startswith("OutOf")
    )
    return rejected or reason in DISRUPTIONS


def went_down_with_its_node(status: Body, ended: Ending | None) -> bool:
    """Whether a pod in which nothing starts again went down with its node: nobody knows then how it
    `ended`, and its program is not to blame. A status with a reason says that the pod was ended
    on purpose, so it did not go down with its node.
    """
    return containers.unseen(ended) and not status.get("reason")


def was_ended(status: Body) -> bool:
    """Whether a pod that is Failed was ended, whatever its program then said: the kubelet gives a
    reason just then. One that it makes Succeeded had ended by itself before (1.34, pkg/kubelet:
    evictPod, nodeshutdown, preemption).
    """
    return status.get("phase") == "Failed" and bool(status.get("reason") or targeted(status))


def targeted(status: Body) -> bool:
    """Whether the pod has been chosen to go."""
    conditions = status.get("conditions") or ()
    return any(
        c.get("type") == "DisruptionTarget" and c.get("status") == "True" for c in conditions
    )
