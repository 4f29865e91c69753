"""The status of a DIJob.

The status has two kinds of fields. Some fields are facts that the operator cannot observe again
after a restart, such as counted failures and the digest of the peer list. The operator writes these
facts before it acts on them. The other fields are figures for users and autoscalers.
"""

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
# The status of a job is read and written as a whole, so it keeps only a few interruptions.
MOST_INTERRUPTIONS = 5
TaskStatus = Annotated[dict[str, Pods], Field(max_length=5)]


class Stored(BaseModel):
    """An object stored in the apiserver. Unknown fields in it were written by another version of
    the operator, and are ignored.
    """

    # The docstring of a field is its description in the CRD, `kubectl explain` and
    # docs/reference.md.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def without_nulls(given: Any) -> Any:
    """Return an object without its null fields."""
    if not isinstance(given, Mapping):
        return given
    return {name: value for name, value in given.items() if value is not None}


class Charge(Stored):
    """The terminations and failures that the operator has counted for the pod of one rank. They are
    stored so that the operator counts nothing twice.
    """

    rank: Rank
    """The rank of the pod."""
    uid: Annotated[str, Field(max_length=64)] = ""
    """UID of the pod whose container terminations are counted here."""
    restarts: Count = 0
    """How many unsuccessful terminations of the pod's containers have been processed, including
    those caused by a re-rendezvous."""
    init_restarts: Count = 0
    """How many unsuccessful terminations of the pod's init containers have been processed."""
    failures: Count = 0
    """How many of the processed terminations were counted as failures."""
    disrupted: bool = False
    """Whether a rule of failurePolicy counted the pod's disruption as a failure."""
    renewed: Number = 0
    """Revision of the last peer list for which the rank's process was restarted. Such a restart is
    not a failure."""
    shape: Annotated[str, Field(max_length=1024)] = ""
    """The kubelet restarts a container if its image or resources change. Such a restart is not a
    failure. This field contains fingerprints of the images and resources of the pod's containers at
    the last such restart. Empty: there was no such restart."""
    excused_at: Time = ""
    """When the pod's main container last exited for a restart that does not count as a failure."""


class FirstFailure(Stored):
    """The first failure of the job, which is usually the cause of all later ones."""

    rank: Rank
    """The rank that failed first."""
    pod: Name = ""
    """The pod of the failed rank."""
    container: Name = ""
    """The container that failed. Empty: the main container."""
    node: Name = ""
    """The node that the pod ran on."""
    exit_code: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Exit code of the container, if it exited on its own."""
    signal: Annotated[int, Field(ge=0, le=255)] | None = None
    """Signal that terminated the container, for example 9 if it ran out of memory."""
    reason: Reason = ""
    """The kubelet's reason, for example Error or OOMKilled."""
    message: Message = ""
    """The termination message of the container, or the kubelet's message about the pod."""
    cause: Message = ""
    """More about the cause, from the cluster: the memory limit that was reached, or the probe that
    failed."""
    time: Time = ""
    """When the failure happened."""


class Condition(Stored):
    """One condition in the shape of metav1.Condition."""

    type: Annotated[str, Field(max_length=316)]
    """The condition's type, one of those in docs/conditions.md."""
    status: Annotated[str, Field(json_schema_extra={"enum": ["True", "False", "Unknown"]})]
    """True, False or Unknown."""
    reason: Reason = ""
    """A one-word, machine-readable reason."""
    message: Message = ""
    """A human-readable message: what is wrong, which rank is affected, and what to do."""
    last_transition_time: Time = ""
    """When the status of the condition last changed."""
    observed_generation: Number = 0
    """The metadata.generation of the DIJob for which this condition was set."""


class Renewal(Stored):
    """A re-rendezvous: a peer list became stale because a rank was lost, the job was suspended or
    scaled, or a failure restarted all ranks."""

    list_number: Number = 0
    """Revision of the peer list that became stale."""
    reason: Reason = ""
    """A one-word, machine-readable reason, for example PodLost or AddressChanged."""
    message: Message = ""
    """The cause of the re-rendezvous, for example which pod was deleted, or how `replicas` was
    changed."""
    ranks: Annotated[str, Field(max_length=8192)] = ""
    """The ranks that restart: the lost rank and those that connect to it, as ranges such as 2-3,7.
    Empty: all ranks."""
    lost: Annotated[str, Field(max_length=8192)] = ""
    """The ranks that caused the re-rendezvous, because they were lost or failed. Empty: the
    re-rendezvous had another cause."""
    time: Time = ""
    """When the operator noticed that the list had become stale."""


class ListProof(Stored):
    """The proof of a peer list. A copy of the list is accepted only if it has this digest."""

    size: Annotated[int, Field(ge=0, le=names.MAX_REPLICAS)] = 0
    """Number of ranks in the list."""
    digest: Annotated[str, Field(max_length=64)] = ""
    """First 128 bits of the SHA-256 of "REVISION ADDRESS,ADDRESS,...". The addresses are in rank
    order."""
    finished: Annotated[str, Field(max_length=8192)] = ""
    """The ranks that had already succeeded when the operator made the peer list, as ranges such as
    0-3,7. The peer list does not contain their addresses."""


class GivenBack(Stored):
    """A failed attempt to start the job: there was not enough capacity for all its pods. The job's
    pods that had a node were deleted, so that other jobs can use those nodes."""

    count: Count = 0
    """How many times the job has released its capacity."""
    until: Time = ""
    """When the job will try again."""
    message: Message = ""
    """Why the job released its capacity: the ranks that could not start, and the cause."""
    kept_ranks: Annotated[str, Field(max_length=8192)] = ""
    """The ranks whose pods had no node, as ranges such as 2-3. These pods are kept so that a
    cluster autoscaler can add nodes for them. Empty: a quota was full, so no pods were kept."""
    contended: bool = False
    """Whether another job was also waiting for a node when this job released its capacity. If true,
    the pod of a rank in keptRanks is deleted if it gets a node before the job's next attempt. If
    false, the job tries again as soon as such a pod gets a node."""


class Interruption(Stored):
    """A period in which not all ranks of the job were Ready, although the job had been running
    before.
    """

    time: Time = ""
    """When the interruption began."""
    seconds: Count = 0
    """How many seconds the interruption lasted. If it is not over, add the time since
    goodput.activitySince."""
    reason: Reason = ""
    """A one-word, machine-readable reason: the reason of the re-rendezvous (see lastRenewal),
    Crashed (a program failed and restarted in its pod), or NotReady."""
    lost: Annotated[str, Field(max_length=256)] = ""
    """The ranks that were lost, failed or not Ready, as ranges such as 0-3,7. Empty: unknown."""
    ranks: Annotated[str, Field(max_length=256)] = ""
    """The ranks whose programs restarted or were not Ready. All other ranks kept running. Empty:
    all ranks."""


class Goodput(Stored):
    """How the job has spent its time. The seconds spent in all activities add up to the time
    from `since` to `activitySince`."""

    since: Time = ""
    """When the counting began: at the creation of the job, or later if the job's status was created
    by an older version of the operator."""
    activity: names.Activity = names.Activity.STARTING
    """What the job is doing now. Waiting: it is suspended, or is waiting for a node, a quota or a
    queue. Starting: its pods and programs are starting. Running: all ranks are Ready. Recovering:
    it was running before, but not all ranks are Ready now. Ended: it has ended, and no time is
    counted."""
    activity_since: Time = ""
    """When the current activity began. The fields below do not include the time since then, so that
    the status does not have to be rewritten as time passes."""
    waiting_seconds: Count = 0
    """Seconds spent in the activity Waiting."""
    starting_seconds: Count = 0
    """Seconds spent in the activity Starting."""
    running_seconds: Count = 0
    """Seconds spent in the activity Running."""
    recovering_seconds: Count = 0
    """Seconds spent in the activity Recovering."""
    interruptions: Count = 0
    """How many times the job had to recover."""
    last_interruptions: Annotated[
        tuple[Interruption, ...], Field(max_length=MOST_INTERRUPTIONS)
    ] = ()
    """The last interruptions, oldest first. recoveringSeconds also includes earlier
    interruptions."""


class Stall(Stored):
    """A period in which the training of a job with stallSeconds makes no progress."""

    since: Time = ""
    """If the condition ProgressStalled is True: when the training last made progress. Otherwise,
    this field is empty."""
    iteration: Number | None = None
    """The iteration at which the training stopped making progress, if it is known."""
    restarted: Annotated[str, Field(max_length=8192)] = ""
    """The ranks that the operator has restarted because of a stall, as ranges such as 0-3,7. They
    are never restarted for this reason again."""


class Status(Stored):
    """The observed state of the job and the operator's actions. Only the operator writes the
    status."""

    phase: Annotated[str, Field(json_schema_extra={"enum": ["", *names.Phase]})] = ""
    """A one-word, human-readable summary of the job's state. Programs should read the
    conditions."""
    message: Message = ""
    """The most important message of the conditions: why the job ended, or what it is waiting
    for."""
    topology: Annotated[str, Field(max_length=16)] = ""
    """Which ranks connect to which, from the spec or the command."""
    parallel_workers: Count | None = None
    """Worker processes per pod, from the spec or the command; the world size is replicas x this
    number. Absent if only the program knows the number; `kubectl dijob topology` asks the pods."""
    desired: Count = 0
    """Desired number of pods."""
    replicas: Count = 0
    """Number of pods that exist and are not being deleted (read by `kubectl scale` and
    autoscalers). In a job with tasks, only the last task's pods are counted."""
    # This field is DEFAULTED, like restarts. Otherwise the columns of `kubectl get` would be empty
    # instead of showing 0.
    ready_replicas: Annotated[Count, DEFAULTED] = 0
    """Number of pods that are Ready, which means that their processes are listening."""
    task_status: Annotated[dict[str, TaskStatus], Field(max_length=names.MAX_TASKS)] = {}
    """Number of pods of each task in each phase, as in DI-orchestrator 1.1. Present only if the job
    has tasks."""
    selector: Annotated[str, Field(max_length=512)] = ""
    """The label selector of the job's pods (read by autoscalers). In a job with tasks, it selects
    only the last task's pods."""
    # kstatus compares this field with metadata.generation. The CRD sets it to -1 when a job is
    # created. So no job counts as healthy before the operator has seen it (docs/decisions/066).
    observed_generation: Annotated[int, Field(ge=-1, le=2**53)] = 0
    """The metadata.generation for which this status was written; -1 before the operator has seen
    the job."""
    # The revision is written before any pod gets the list. A copy of the list on a pod is genuine
    # only if the status already has its digest (docs/decisions/015).
    list_number: Number = 0
    """Revision of the newest peer list. It is written together with addressList, before any rank
    gets the list."""
    address_list: ListProof | None = None
    """The proof of the newest peer list: a digest that identifies genuine copies of the list."""
    template_hash: Annotated[str, Field(max_length=64)] = ""
    """A fingerprint of the template and the other immutable fields that the pods are created
    from."""
    renewals: Count = 0
    """Number of re-rendezvous: how many times a peer list became stale and ranks restarted."""
    last_renewal: Renewal | None = None
    """The last re-rendezvous and its cause. It is written before the affected ranks restart."""
    given_back: GivenBack | None = None
    """The last time that the job released its capacity because not all of its pods could start."""
    start_time: Time | None = None
    """When the operator first saw the job."""
    suspend_time: Time | None = None
    """When the current suspension of the job began."""
    resume_time: Time | None = None
    """When the job was last resumed."""
    suspended_seconds: Count = 0
    """Total time of earlier suspensions, which activeDeadlineSeconds does not count."""
    completion_time: Time | None = None
    """When the job succeeded or failed."""
    restarts: Annotated[Count, DEFAULTED] = 0
    """Number of failures counted against backoffLimit so far, over all ranks. If a failure
    restarts all ranks, all failures that are detected at the same time count as one."""
    restarts_seen: Annotated[tuple[Charge, ...], Field(max_length=names.MAX_REPLICAS)] = ()
    """What has been counted for each rank's pod: restarts, failures, disruptions."""
    # The tasks of a suspended job can be changed. Ranks that were counted under the old tasks must
    # not be read as ranks of the new tasks.
    tasks: Annotated[str, Field(max_length=1024)] = ""
    """The names and sizes of the tasks to which the ranks in this status belong, such as
    "learner 1 evaluator 1 collector". The last task has no size, because it can be scaled."""
    # A name is written before its object is created. So a new operator knows which objects it must
    # delete, even if the field was removed from the spec while no operator was running.
    budgets: Annotated[str, Field(max_length=names.MAX_TASKS * 64)] = ""
    """The names of the PodDisruptionBudgets that the job has or will get, separated by spaces (see
    spec.disruptionBudget)."""
    succeeded_ranks: Annotated[str, Field(max_length=8192)] = ""
    """The ranks whose main container exited 0, as ranges such as 0-3,7. With runtime torch or
    oneflow and restart.scope Job, a re-rendezvous or a suspension clears this field."""
    first_failure: FirstFailure | None = None
    """The first failure of the job, which is usually the cause of all later ones."""
    goodput: Goodput | None = None
    """How the job has spent its time. `kubectl dijob report` prints it."""
    stall: Stall | None = None
    """The stall that the condition ProgressStalled reports, and the ranks that were restarted
    because of a stall. Present only if there was a stall."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """The conditions of the job. For example, `kubectl wait --for=condition=Finished dijob/NAME`
    waits for one of them."""

    @property
    def ended(self) -> bool:
        """Whether the job has ended. After that, the operator only cleans up."""
        # Succeeded and Failed, the phases of a job that has ended, are also the types of the
        # conditions that report its end.
        ends = (names.Phase.SUCCEEDED, names.Phase.FAILED)
        return any(one.type in ends and one.status == "True" for one in self.conditions)


def format_time(now: datetime) -> str:
    """Return a time in the Kubernetes format: RFC 3339, UTC, whole seconds."""
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str | None) -> datetime | None:
    """Parse a timestamp. Returns None if the text is not a timestamp.

    A user can edit the status by hand, so the text may be anything. A time without a time zone is
    also rejected, because it cannot be compared.
    """
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
