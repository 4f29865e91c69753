"""The actions of a plan: frozen data, one class per kind of API call. The controller carries
them out.

`changes` names the kind of change; a rejection is stored under it (decide/changes.py). It is "" for
a creation, whose rejection is stored under the kind and name of the object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dijob.api.model import DIJob
from dijob.core.addresses import ListCopy
from dijob.core.members import GangMember
from dijob.core.options import Options


@dataclass(frozen=True)
class SetReplicas:
    """Write spec.replicas once if the user left it out. Without it, GET on the scale subresource
    returns 500.
    """

    replicas: int
    changes: ClassVar = "patch dijob"


@dataclass(frozen=True)
class CreatePod:
    """Create the pod of one rank."""

    member: GangMember
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateInOrder:
    """Create these pods one after the other, and stop after a rejection. A scheduler with capacity
    for some of them then finds the lowest rank first.
    """

    members: tuple[GangMember, ...]
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateShared:
    """Create the missing objects among those that the job's ranks share, in this order.

    `manifests` returns them, for example render/service.py:manifests.
    """

    manifests: Callable[[DIJob, Options], tuple[dict[str, Any], ...]]
    changes: ClassVar = ""


@dataclass(frozen=True)
class ChangePolicy:
    """Update an existing NetworkPolicy of the job, because the job has changed or somebody has
    edited the policy.
    """

    name: str
    uid: str
    # The desired spec. It is left out of the hash, because a dict is not hashable.
    spec: Mapping[str, Any] = field(hash=False)
    changes: ClassVar = "patch networkpolicy"


@dataclass(frozen=True)
class PodAction:
    """An action on one existing pod."""

    name: str
    uid: str
    changes: ClassVar = "patch pod"


@dataclass(frozen=True)
class PublishAddresses(PodAction):
    """Write the peer list to one pod, which opens its gate. `copy.derived` is empty here:
    render/annotations.py fills it for the annotations that the pod `reads` (MadeWith).
    """

    copy: ListCopy
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RemindPod(PodAction):
    """Remind the kubelet of a pod in which this revision of the peer list has had no effect yet.
    `at` is any new text: every change to the pod makes the kubelet sync it.
    """

    number: int
    at: str


@dataclass(frozen=True)
class ConfirmEnds(PodAction):
    """Confirm to the launcher in a pod that this many terminations of its program are counted.
    After a failure, the launcher restarts the program only once it has this confirmation.
    """

    ends: int


@dataclass(frozen=True)
class DeletePod(PodAction):
    """Delete one pod. `grace` is its grace period in seconds; None: the pod's own."""

    grace: int | None = None
    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class ReleasePod(DeletePod):
    """Delete a pod that holds a node while a lower rank finds none. It is re-created when that rank
    has a node.
    """


@dataclass(frozen=True)
class ForceDeletePod(PodAction):
    """Force-delete a pod whose node will never report that it has ended."""

    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class EndPod(PodAction):
    """End a crash-looping pod through activeDeadlineSeconds: it becomes Failed and keeps its
    logs.
    """


@dataclass(frozen=True)
class DeleteJob:
    """Delete the DIJob and everything that belongs to it, because its ttlSecondsAfterFinished has
    expired.
    """

    changes: ClassVar = "delete dijob"


# Grouped by the object that they change, as the controller dispatches them.
OfPod = (
    PublishAddresses | RemindPod | ConfirmEnds | DeletePod | ReleasePod | ForceDeletePod | EndPod
)
OfJob = SetReplicas | DeleteJob | ChangePolicy
Action = OfJob | CreatePod | CreateInOrder | CreateShared | OfPod


@dataclass(frozen=True)
class Event:
    """A Kubernetes event of the job, of type Warning or Normal."""

    reason: str
    message: str
    warning: bool = True
