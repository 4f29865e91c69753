"""The actions of a plan: frozen data, one class per kind of API call. The controller carries
them out.

`changes` names the kind of change; a rejection is stored under it (decide/changes.py). For a
creation, `changes` is "", because its rejection is stored under the kind and name of the object.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dijob.api.model import DIJob
from dijob.core.addresses import ListCopy
from dijob.core.members import GangMember
from dijob.core.options import Options
from dijob.names import Engine


@dataclass(frozen=True)
class SetReplicas:
    """Write spec.replicas if the user left it out. Without it, GET on the scale subresource returns
    500, and a PodDisruptionBudget that needs the size allows no eviction. In a job with tasks, also
    write the record of the last task (api/last_task.py), in the same request.
    """

    replicas: int
    record: str = ""
    changes: ClassVar = "patch dijob"


@dataclass(frozen=True)
class EngineObject:
    """The object that a job's engine needs (render/scheduling), identified by its name."""

    engine: Engine
    name: str


@dataclass(frozen=True)
class AdmittedPods(EngineObject):
    """The admitted Workload that new pods belong to."""


@dataclass(frozen=True)
class EngineGang(EngineObject):
    """The gang of new pods. The gang's engine gives nodes to `count` ranks at the same time."""

    count: int


@dataclass(frozen=True)
class CreatePod:
    """Create the pod of one rank. If the job has an engine, the pod is in the engine's gang."""

    member: GangMember
    group: EngineGang | AdmittedPods | None = None
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateInOrder:
    """Create these pods one after the other, and stop after a rejection. If the cluster has
    capacity for only some of them, the scheduler then places the lowest ranks first.
    """

    members: tuple[GangMember, ...]
    group: EngineGang | AdmittedPods | None = None
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateShared:
    """Create the shared objects that `manifests` returns, in that order, unless they already exist.

    An example of `manifests` is render/service.py:manifests. If one of the objects is a pod,
    `group` is the Workload of that pod.
    """

    manifests: Callable[[DIJob, Options], tuple[dict[str, Any], ...]]
    group: AdmittedPods | None = None
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateScheduling(EngineObject):
    """Create the object that makes the engine place `count` ranks at the same time."""

    count: int
    changes: ClassVar = ""


@dataclass(frozen=True)
class ChangeScheduling(EngineObject):
    """Change how many ranks the engine places at the same time."""

    uid: str
    count: int
    changes: ClassVar = "patch podgroup"


@dataclass(frozen=True)
class DeleteScheduling(EngineObject):
    """Delete the engine's object, because the job is suspended."""

    uid: str
    changes: ClassVar = "delete podgroup"


@dataclass(frozen=True)
class CreateWorkload:
    """Create the Workload with which the job waits in its queue. `priority` is the value of its
    priority class. If the job grows, `replaces` is the name of its current Workload, and `ranks` is
    how many ranks the job will have.
    """

    name: str
    priority: int
    replaces: str = ""
    ranks: int = 0
    changes: ClassVar = ""


@dataclass(frozen=True)
class CreateBudget:
    """Create the PodDisruptionBudget of a task, or of a job without tasks (`task`: ""). It keeps at
    least `least` of the ranks Ready.
    """

    name: str
    task: str
    least: int
    changes: ClassVar = ""


@dataclass(frozen=True)
class ReportWorkload:
    """Write to the status of the job's Workload, if the Workload still has this version. `what`
    says what is reported.
    """

    name: str
    uid: str
    version: str
    what: str
    # This field is left out of the hash, because a dict is not hashable.
    status: Mapping[str, Any] = field(hash=False)
    changes: ClassVar = "patch workload"


@dataclass(frozen=True)
class DeleteWorkload:
    """Delete a Workload of the job. This gives its quota back. With `version`, delete the Workload
    only if it still has this version.
    """

    name: str
    uid: str
    version: str = ""
    changes: ClassVar = "delete workload"


@dataclass(frozen=True)
class ChangeBudget(CreateBudget):
    """Update a PodDisruptionBudget, because the number of ranks that must still run has changed, or
    because somebody has edited the budget.
    """

    uid: str
    changes: ClassVar = "patch poddisruptionbudget"


@dataclass(frozen=True)
class DeleteBudget:
    """Delete a PodDisruptionBudget that the job no longer needs."""

    name: str
    uid: str
    changes: ClassVar = "delete poddisruptionbudget"


@dataclass(frozen=True)
class ChangePolicy:
    """Update an existing NetworkPolicy of the job, because the job has changed or somebody has
    edited the policy.
    """

    name: str
    uid: str
    # The desired spec. This field is left out of the hash, because a dict is not hashable.
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
    render/annotations.py fills it for the annotations in the pod's `reads` (MadeWith).
    """

    copy: ListCopy
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RemindPod(PodAction):
    """Make the kubelet sync a pod that has not acted on this revision of the peer list yet. `at`
    can be any new text, because every change to the pod makes the kubelet sync it.
    """

    number: int
    at: str


@dataclass(frozen=True)
class ConfirmEnds(PodAction):
    """Confirm to the launcher in a pod that this many terminations of its program have been
    counted. After a failure, the launcher waits for this confirmation before it restarts the
    program.
    """

    ends: int


@dataclass(frozen=True)
class AskStack(PodAction):
    """Ask the launcher in a pod for the stack of its program's main thread. This action does not
    write to the API server.
    """


@dataclass(frozen=True)
class DeletePod(PodAction):
    """Delete one pod. `grace` is the grace period in seconds; None means the pod's own."""

    grace: int | None = None
    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class ReleasePod(DeletePod):
    """Delete a pod that holds a node while no node is found for a lower rank. The pod is re-created
    when that rank has a node.
    """


@dataclass(frozen=True)
class ForceDeletePod(PodAction):
    """Force-delete a pod whose node will never report that the pod has ended."""

    changes: ClassVar = "delete pod"


@dataclass(frozen=True)
class EndPod(PodAction):
    """Terminate a crash-looping pod by setting activeDeadlineSeconds: the pod becomes Failed and
    keeps its logs.
    """


@dataclass(frozen=True)
class DeleteJob:
    """Delete the DIJob and everything that belongs to it, because its ttlSecondsAfterFinished has
    expired.
    """

    changes: ClassVar = "delete dijob"


# The actions are grouped by the object that they change, because the controller dispatches them by
# group.
OfPod = (
    PublishAddresses
    | RemindPod
    | ConfirmEnds
    | AskStack
    | DeletePod
    | ReleasePod
    | ForceDeletePod
    | EndPod
)
OfJob = SetReplicas | DeleteJob | ChangePolicy
OfEngine = CreateScheduling | ChangeScheduling | DeleteScheduling
OfQueue = CreateWorkload | ReportWorkload | DeleteWorkload
OfBudget = CreateBudget | ChangeBudget | DeleteBudget
Creation = CreatePod | CreateInOrder | CreateShared
Action = OfJob | Creation | OfEngine | OfQueue | OfBudget | OfPod


@dataclass(frozen=True)
class Event:
    """A Kubernetes event about the job, of type Warning or Normal."""

    reason: str
    message: str
    warning: bool = True
