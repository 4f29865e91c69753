"""Reasons of the conditions about a job that is held, being deleted, or ended."""

from typing import Final

from dijob import names
from dijob.reasons.catalogue import EventType, Reason, finished_entry, good, over, problem, waiting

# The operator uses a deadline to end pods that it keeps for their logs, so their status shows that
# deadline and not what happened. The annotation has the real cause.
_LOGS: Final = (
    "`kubectl logs` of the pod that the message names; the pod is kept unless `cleanPodPolicy` is"
    f" All. If the pod shows DeadlineExceeded or ContainerStatusUnknown, its annotation"
    f" `{names.ANNOTATION_ENDED}` explains why"
)


class Suspended(Reason):
    """Whether the job is suspended by `spec.suspend`. Present only after the job has been suspended
    once.
    """

    Suspending = waiting(
        "its pods are terminating within their grace periods, or its old pods delay a resumption",
        status=True,
    )
    Suspended = waiting(
        "the job has no pods",
        "set `spec.suspend` to false to resume the job",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good(
        "the job continues with the same ranks and names", status=False, event=EventType.NORMAL
    )
    Finished = finished_entry()


class Paused(Reason):
    """Whether the annotation `diengine.opendilab.org/paused` is set. While it is set, the operator
    observes the job and updates its status, but creates, changes and deletes nothing. It is meant
    for emergencies: `kubectl annotate dijob NAME diengine.opendilab.org/paused=true`. Present only
    after the job has been paused once.
    """

    Annotated = waiting(
        "the job is paused",
        f"`kubectl annotate dijob NAME {names.ANNOTATION_PAUSED}-` to continue",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good("the operator manages the job again", status=False, event=EventType.NORMAL)


class Terminating(Reason):
    """True: the job is being deleted, and still exists after some seconds. The operator creates
    nothing and replaces no lost rank. Failures still count.
    """

    HeldByFinalizer = problem(
        "finalizers of another controller block the deletion. The job's pods keep running unless"
        " this is a foreground deletion",
        "make the controller that set the finalizer remove it; if that controller no longer exists:"
        ' `kubectl patch dijob NAME --type=merge -p \'{"metadata":{"finalizers":null}}\'`',
        status=True,
    )
    WaitsForPods = waiting(
        "a foreground deletion waits for the job's pods; PodsCreated says what blocks their"
        " deletion",
        status=True,
    )


class Succeeded(Reason):
    """True: the job has succeeded."""

    AllRanksSucceeded = good("the main container of every rank exited 0", event=EventType.NORMAL)
    SuccessPolicy = good(
        "the ranks that `successPolicy` requires have exited 0; the operator ends the other ranks",
        event=EventType.NORMAL,
    )


class Failed(Reason):
    """True: the job has failed. The message and `status.firstFailure` name the first failure, which
    is usually the cause.
    """

    BackoffLimitExceeded = problem(
        "there were more failures than `backoffLimit` allows for all ranks in total",
        _LOGS,
        status=True,
    )
    FailurePolicy = problem(
        "a rule of `failurePolicy` with the action FailJob matched; the message names the rule",
        _LOGS,
        status=True,
    )
    DeadlineExceeded = problem(
        "the job did not end within `activeDeadlineSeconds`; time spent suspended does not count",
        "find out what the job waited for, or give it more time in a new job",
        status=True,
    )
    StartupDeadlineExceeded = problem(
        "the job was not Running within `startupDeadlineSeconds` of its creation, of its"
        " resumption, or of the last re-rendezvous of all ranks; the message names the rank that"
        " the job waited for, and why",
        "remove that cause, or allow more time, and recreate the job",
        status=True,
    )


class Finished(Reason):
    """True: the job has ended, successfully or not. To wait for the end of a job, wait for this
    condition. It has the message of Succeeded or Failed.
    """

    Succeeded = over("the job has succeeded, see Succeeded", status=True)
    Failed = over("the job has failed, see Failed", status=True)
