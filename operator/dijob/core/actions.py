"""What a plan can ask the shell to do: frozen data, one class per call to the apiserver.

`changes` is what the action changes, by which a refusal is remembered (decide/changes.py); "" for a
creation, whose refusal is remembered by the kind and name of its object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dijob.api.model import DIJob
from dijob.core.addresses import ListCopy
from dijob.core.members import Member
from dijob.core.options import Options


@dataclass(frozen=True)
class SetReplicas:
    """Write spec.replicas once where the user left it out: without it GET scale answers 500."""

    replicas: int
    changes: ClassVar = "patch dijob"


@dataclass(frozen=True)
class CreatePod:
    """Create the pod of one rank."""

    member: Member
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateInOrder:
    """Create these pods one after the other, and none after one that is refused."""

    members: tuple[Member, ...]
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateShared:
    """Create what is missing of the objects that the job's ranks share, in this order.

    `manifests` makes them, for example render/service.py's.
    """

    manifests: Callable[[DIJob, Options], tuple[dict[str, Any], ...]]
    changes: ClassVar = ""


@dataclass(frozen=True)
class ChangePolicy:
    """Make an existing NetworkPolicy of the job what it is to be: the job has changed, or somebody
    has edited the policy.
    """

    name: str
    uid: str
    # What it is to be. Compared by itself: a dict has no hash.
    spec: Mapping[str, Any] = field(hash=False)
    changes: ClassVar = "patch networkpolicy"


@dataclass(frozen=True)
class PodAction:
    """What is done to one pod that is there."""

    name: str
    uid: str
    changes: ClassVar = "patch pod"


@dataclass(frozen=True)
class PublishAddresses(PodAction):
    """Give one pod its copy of the address list; its gate opens on it. `copy.derived` is
    empty here: render/annotations.py makes it, for what the pod `reads` (MadeWith).
    """

    copy: ListCopy
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RemindPod(PodAction):
    """Remind the kubelet of a pod in which the list of this number has had no effect yet; `at` is
    any new text."""

    number: int
    at: str


@dataclass(frozen=True)
class ConfirmEnds(PodAction):
    """Tell the launcher in a pod that this many ends of its program are counted: after a failure,
    it starts the program again only then.
    """

    ends: int


@dataclass(frozen=True)
class DeletePod(PodAction):
    """Delete one pod. `grace` is how long it has to end, in seconds; None: its own grace period."""

    grace: int | None = None
    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class ReleasePod(DeletePod):
    """Delete a pod that holds a node while a lower rank finds none; it comes back when that one has
    its place.
    """


@dataclass(frozen=True)
class ForceDeletePod(PodAction):
    """Remove the object of a pod whose node will never say that it has ended."""

    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class EndPod(PodAction):
    """End a crash-looping pod by its deadline: it becomes Failed and its logs stay."""


@dataclass(frozen=True)
class DeleteJob:
    """Delete the DIJob itself, with all that belongs to it: it has ended, and its time to live is
    over.
    """

    changes: ClassVar = "delete dijob"


OfPod = (
    PublishAddresses | RemindPod | ConfirmEnds | DeletePod | ReleasePod | ForceDeletePod | EndPod
)
OfJob = SetReplicas | DeleteJob | ChangePolicy
Action = OfJob | CreatePod | CreateInOrder | CreateShared | OfPod


@dataclass(frozen=True)
class Event:
    """One line for `kubectl describe`. `warning` false is type Normal."""

    reason: str
    message: str
    warning: bool = True
