"""Reasons of the conditions about a job that is held, is being deleted, or has ended."""

from typing import Final

from dijob import names
from dijob.reasons.catalogue import EventType, Reason, finished_entry, good, over, problem, waiting

# The operator uses a deadline to terminate pods that it keeps for their logs, so their status shows
# this deadline instead of the real cause. The annotation has the real cause.
_LOGS: Final = (
    "run `kubectl logs` for the pod that the message names; the pod is kept unless `cleanPodPolicy`"
    f" is All. If the pod shows DeadlineExceeded or ContainerStatusUnknown, its annotation"
    f" `{names.ANNOTATION_ENDED}` explains why"
)


class Suspended(Reason):
    """Whether the job is suspended by `spec.suspend`, or held by its queue. Present only if the job
    has ever been suspended.
    """

    Suspending = waiting(
        "the job's pods are terminating within their grace periods, or old pods delay the job's"
        " resumption",
        status=True,
    )
    Suspended = waiting(
        "the job has no pods",
        "set `spec.suspend` to false to resume the job",
        status=True,
        event=EventType.NORMAL,
    )
    Queued = waiting(
        "the job has no pods, because Kueue has not admitted it, or has evicted it; see"
        " GangScheduled",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good(
        "the job continues with the same ranks and names", status=False, event=EventType.NORMAL
    )
    Finished = finished_entry()


class Paused(Reason):
    """Whether the annotation `diengine.opendilab.org/paused` is set. While a job has this
    annotation, the operator observes the job and updates its status, but creates, changes and
    deletes nothing. The annotation is meant for emergencies: `kubectl annotate dijob NAME
    diengine.opendilab.org/paused=true`. Present only if the job has ever been paused.
    """

    Annotated = waiting(
        "the job is paused",
        f"run `kubectl annotate dijob NAME {names.ANNOTATION_PAUSED}-` to continue",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good("the operator manages the job again", status=False, event=EventType.NORMAL)


class Terminating(Reason):
    """True: the job is being deleted, and still exists after a few seconds. The operator creates no
    objects and does not replace lost ranks. Failures still count.
    """

    HeldByFinalizer = problem(
        "finalizers of another controller block the deletion. The job's pods keep running unless"
        " this is a foreground deletion",
        "make the controller that set the finalizer remove it; if that controller no longer exists,"
        " remove the finalizer:"
        ' `kubectl patch dijob NAME --type=merge -p \'{"metadata":{"finalizers":null}}\'`',
        status=True,
    )
    WaitsForPods = waiting(
        "a foreground deletion is waiting for the job's pods; PodsCreated says what blocks their"
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
        "find out what the job waited for, or create a new job with more time",
        status=True,
    )
    StartupDeadlineExceeded = problem(
        "the job was not Running within `startupDeadlineSeconds` after its creation, its resumption"
        " or the last re-rendezvous of all ranks. The message says which rank the job waited for,"
        " and why",
        "remove the cause that the message names, or allow more time, and recreate the job",
        status=True,
    )


class Finished(Reason):
    """True: the job has ended, successfully or not. To wait for the end of a job, wait for this
    condition. The message is the same as that of Succeeded or Failed.
    """

    Succeeded = over("the job has succeeded, see Succeeded", status=True)
    Failed = over("the job has failed, see Failed", status=True)
