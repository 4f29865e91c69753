"""A DIJob's status: facts that cannot be observed again, and figures for users and autoscalers."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from dijob import names
from dijob.api.traits import DEFAULTED

MAX_RANK = names.MAX_REPLICAS - 1

Rank = Annotated[int, Field(ge=0, le=MAX_RANK)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
Number = Annotated[int, Field(ge=0, le=2**53)]
Name = Annotated[str, Field(max_length=253)]
Reason = Annotated[str, Field(max_length=1024)]
Message = Annotated[str, Field(max_length=32768)]
Time = Annotated[str, Field(max_length=64)]
# Number of pods by phase: Pending, Running, Succeeded, Failed, Unknown.
Pods = Annotated[int, Field(ge=0, le=names.MAX_REPLICAS)]
TaskStatus = Annotated[dict[str, Pods], Field(max_length=5)]


class Stored(BaseModel):
    """An object of the apiserver: unknown fields come from other versions and are ignored."""

    # The docstring of a field is its description in the CRD, `kubectl explain`, docs/reference.md.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def without_nulls(given: Any) -> Any:
    """An object without the fields that are null."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if value is not None}


class Charge(Stored):
    """What has been counted of the pod of one rank, charged or not, so that nothing is charged
    twice.
    """

    rank: Rank
    """The rank that this is about."""
    uid: Annotated[str, Field(max_length=64)] = ""
    """UID of the rank's pod whose ends are counted here."""
    restarts: Count = 0
    """How many bad ends of its containers have been looked at, renewals included."""
    init_restarts: Count = 0
    """How many bad ends of its init containers have been looked at."""
    failures: Count = 0
    """How many of them were charged as failures of this pod."""
    disrupted: bool = False
    """Whether a rule of failurePolicy has counted the pod's disruption as a failure."""
    renewed: Number = 0
    """Number of the last address list for which its process was restarted: not a failure."""
    shape: Annotated[str, Field(max_length=1024)] = ""
    """Fingerprints of its containers' images and resources when a restart that the kubelet made for
    a change of them was counted last: not a failure. Empty: there has been none."""
    excused_at: Time = ""
    """When its main container last ended without a failure, to be restarted."""


class FirstFailure(Stored):
    """The first failure of the job: usually the cause of all later ones."""

    rank: Rank
    """The rank that failed first."""
    pod: Name = ""
    """Its pod."""
    container: Name = ""
    """The container that failed; empty: the main container."""
    node: Name = ""
    """The node that the pod ran on."""
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Exit code of the container, where it ended by itself."""
    signal: Annotated[int, Field(ge=0, le=255)] | None = None
    """Signal that ended the container, e.g. 9 when memory ran out."""
    reason: Reason = ""
    """The kubelet's word for it, e.g. Error or OOMKilled."""
    message: Message = ""
    """The termination message of the container, or the kubelet's message about the pod."""
    cause: Message = ""
    """What the cluster knows besides: the memory limit that was met, or the probe that failed."""
    time: Time = ""
    """When it happened."""


class Condition(Stored):
    """One condition in the shape of metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """The subject of the condition: one of those in docs/conditions.md."""
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})]
    """True, False or Unknown."""
    reason: Reason = ""
    """One word for programs."""
    message: Message = ""
    """A sentence for people: what is missing, which rank, and what to do."""
    last_transition_time: Time = ""
    """When status last changed."""
    observed_generation: Number = 0
    """The metadata.generation of the DIJob that this condition is about."""


class Renewal(Stored):
    """An address list that died, and why: a rank was lost, the job was suspended or scaled, or a
    failure renewed all ranks."""

    list_number: Number = 0
    """Number of the list that died."""
    reason: Reason = ""
    """One word for programs, e.g. PodLost or AddressChanged."""
    message: Message = ""
    """Which rank it was, and what happened to it."""
    ranks: Annotated[str, Field(max_length=8192)] = ""
    """The renewed ranks: the lost one and those that dial it, as ranges, e.g. 2-3,7. Empty: all."""
    time: Time = ""
    """When the operator noticed."""


class ListProof(Stored):
    """The proof of an address list: a copy is genuine only with this digest."""

    size: Annotated[int, Field(ge=0, le=names.MAX_REPLICAS)] = 0
    """How many ranks it has."""
    digest: Annotated[str, Field(max_length=64)] = ""
    """First 128 bits of the SHA-256 of "NUMBER ADDRESS,ADDRESS,...", in rank order."""
    finished: Annotated[str, Field(max_length=8192)] = ""
    """The ranks that had succeeded when it was made, as ranges, e.g. 0-3,7: it has no addresses of
    them."""


class GivenBack(Stored):
    """A start that found no room: its pods that had a node were deleted, so that other jobs can use
    the room."""

    count: Count = 0
    """How often this has happened."""
    until: Time = ""
    """When the job tries again."""
    message: Message = ""
    """Which rank found no node, and what the scheduler said."""
    kept_ranks: Annotated[str, Field(max_length=8192)] = ""
    """The ranks whose pods had no node and stay, as ranges, e.g. 2-3: a cluster autoscaler adds
    nodes for them. Empty: none, as room in a quota was missing."""
    contended: bool = False
    """Whether another job waited for a node too. If so, a kept pod that finds a node before the
    next try is deleted as well; else the job tries again at once."""


class Status(Stored):
    """Observations and actions of the operator, which alone writes them."""

    phase: Annotated[str, Field(json_schema_extra={"enum": ["", *names.Phase]})] = ""
    """The state in one word, for people; programs should read the conditions."""
    message: Message = ""
    """The most important of the conditions' messages: why the job ended, or what it waits for."""
    topology: Annotated[str, Field(max_length=16)] = ""
    """Which ranks connect to which, as the field or the command says."""
    parallel_workers: Count | None = None
    """Worker processes per pod, by the field or the command; world size is replicas x this.
    Absent if only the program knows the number: `kubectl dijob topology` asks the pods for it."""
    desired: Count = 0
    """How many pods the job wants."""
    replicas: Count = 0
    """How many pods exist and are not being deleted (read by `kubectl scale` and autoscalers)."""
    # Like restarts: else the column of a job that has none is empty.
    ready_replicas: Annotated[Count, DEFAULTED] = 0
    """How many pods are Ready: their process listens."""
    task_status: Annotated[dict[str, TaskStatus], Field(max_length=names.MAX_TASKS)] = {}
    """How many pods of each task are in each phase, as in DI-orchestrator 1.1. Only with tasks."""
    selector: Annotated[str, Field(max_length=512)] = ""
    """The label selector of the job's pods (read by autoscalers)."""
    observed_generation: Number = 0
    """The metadata.generation that this status is about."""
    list_number: Number = 0
    """Number of the newest address list. Written with addressList, before any rank gets it."""
    address_list: ListProof | None = None
    """The proof of the newest address list: a digest by which copies of it are recognized."""
    template_hash: Annotated[str, Field(max_length=64)] = ""
    """A fingerprint of the template and the other immutable fields that the pods are made from."""
    renewals: Count = 0
    """How often an address list has died, so that ranks were renewed."""
    last_renewal: Renewal | None = None
    """The last time that a list died, and why: written before its ranks are renewed."""
    given_back: GivenBack | None = None
    """The last time that the job released its room because not all of its pods found some."""
    start_time: Time | None = None
    """When the operator first saw the job."""
    suspend_time: Time | None = None
    """Since when the job is suspended."""
    resume_time: Time | None = None
    """When it was last resumed."""
    suspended_seconds: Count = 0
    """Total time of earlier suspensions: activeDeadlineSeconds does not count it."""
    completion_time: Time | None = None
    """When the job succeeded or failed."""
    restarts: Annotated[Count, DEFAULTED] = 0
    """Failures charged to backoffLimit so far, of all ranks together; those that renew all ranks
    together count as one."""
    restarts_seen: Annotated[tuple[Charge, ...], Field(max_length=names.MAX_REPLICAS)] = ()
    """What has been counted of each rank's pod: restarts, failures, disruptions."""
    tasks: Annotated[str, Field(max_length=1024)] = ""
    """The tasks by which ranks are counted here, as "learner 1 evaluator 1 collector"."""
    succeeded_ranks: Annotated[str, Field(max_length=8192)] = ""
    """The ranks whose main container exited with 0, as ranges, e.g. 0-3,7. Where runtime is torch
    or oneflow, with restart.scope Job, a renewal and a suspension take that back."""
    first_failure: FirstFailure | None = None
    """The first failure of the job: usually the cause of all later ones."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """The state of the job now. `kubectl wait --for=condition=Finished dijob/NAME` reads these."""

    @property
    def ended(self) -> bool:
        """Whether the job has reached its end; nothing but clean-up happens after it."""
        ends = (names.Phase.SUCCEEDED, names.Phase.FAILED)  # conditions have the same names
        return any(one.type in ends and one.status == "True" for one in self.conditions)


def timestamp(now: datetime) -> str:
    """A time as Kubernetes writes it: RFC 3339, UTC, whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> datetime | None:
    """The time in a stamp; None where it is not one (status can be edited by hand)."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
