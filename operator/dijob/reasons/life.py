"""Reasons of the conditions about a job that is held, or has ended."""

from typing import Final

from dijob import names
from dijob.reasons.catalogue import EventType, Reason, finished, good, over, problem, waiting

_LOGS: Final = (
    "`kubectl logs` of the pod that the message names; it is kept unless `cleanPodPolicy` is All."
    " The pod's annotation `diengine.opendilab.org/ended` says what DeadlineExceeded and"
    " ContainerStatusUnknown mean there"
)


class Suspended(Reason):
    """Whether `spec.suspend` holds the job. Present only once it has been set."""

    Suspending = waiting(
        "its pods are ending, within their grace periods; also while old pods hold up a resumption",
        status=True,
    )
    Suspended = waiting(
        "it has no pods",
        "set `spec.suspend` to false to go on",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good(
        "it goes on, with the same ranks and names", status=False, event=EventType.NORMAL
    )
    Finished = finished()


class Paused(Reason):
    """Whether the annotation `diengine.opendilab.org/paused` is set: the operator observes and
    reports, and creates, changes and deletes nothing of the job. For emergencies: `kubectl annotate
    dijob NAME diengine.opendilab.org/paused=true`. Present only once it has been set.
    """

    Annotated = waiting(
        "paused",
        f"`kubectl annotate dijob NAME {names.ANNOTATION_PAUSED}-` to go on",
        status=True,
        event=EventType.NORMAL,
    )
    Resumed = good("the operator takes care of the job again", status=False, event=EventType.NORMAL)


class Terminating(Reason):
    """True: the job is being deleted, and is still there after some seconds. Nothing is created and
    no loss is healed; failures count.
    """

    HeldByFinalizer = problem(
        "finalizers of another controller keep the job; its pods run on unless the deletion is in"
        " the foreground",
        "make the controller that set the finalizer remove it; if it is gone for good: `kubectl"
        ' patch dijob NAME --type=merge -p \'{"metadata":{"finalizers":null}}\'`',
        status=True,
    )
    WaitsForPods = waiting(
        "a deletion in the foreground waits for the job's pods; PodsCreated says what keeps them",
        status=True,
    )


class Succeeded(Reason):
    """True: the job has ended well."""

    AllRanksSucceeded = good("the main container of every rank exited 0", event=EventType.NORMAL)
    SuccessPolicy = good(
        "those have exited 0 whose success `successPolicy` asks for; the others are ended",
        event=EventType.NORMAL,
    )


class Failed(Reason):
    """True: the job has ended badly. The message and `status.firstFailure` name the first failure,
    usually the cause.
    """

    BackoffLimitExceeded = problem(
        "more failures than `backoffLimit`, of all ranks together", _LOGS, status=True
    )
    FailurePolicy = problem(
        "a rule of `failurePolicy` says FailJob; the message says which", _LOGS, status=True
    )
    DeadlineExceeded = problem(
        "not done within `activeDeadlineSeconds`; time suspended does not count",
        "give it more time in a new job, or see what it waited for",
        status=True,
    )
    StartupDeadlineExceeded = problem(
        "not Running within `startupDeadlineSeconds` of its creation, of being resumed, or of its"
        " last renewal; the message says for which rank it waited, and why",
        "remove that cause, or give it more time, and create the job anew",
        status=True,
    )


class Finished(Reason):
    """True: the job has ended, well or badly. The one to wait for. It has the message of Succeeded
    or Failed.
    """

    Succeeded = over("the job has ended well, see Succeeded", status=True)
    Failed = over("the job has ended badly, see Failed", status=True)
