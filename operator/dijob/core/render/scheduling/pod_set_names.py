"""The names of pod sets, and the label that tells Kueue which pod set a pod belongs to."""

from typing import Final

from dijob import names
from dijob.api.pod_sets import PodSet
from dijob.core.render.scheduling.row import Membership, PodMarks

# The name of the pod set of a job without tasks. Kueue gives the pod set of a batch/v1 Job the same
# name.
MAIN: Final = "main"
POD_SET: Final = f"{names.KUEUE_GROUP}/podset"


def pod_set_name(pod_set: PodSet) -> str:
    """Return the name of a pod set in the Workload."""
    return pod_set.name or MAIN


def of_pod_set(of: Membership) -> PodMarks:
    """Return the label by which Kueue finds the pods of a pod set."""
    return PodMarks(labels={POD_SET: pod_set_name(of.pod_set)})
