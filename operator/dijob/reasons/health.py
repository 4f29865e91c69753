"""Reasons of the conditions that GitOps tools read to tell whether a job is healthy.

Both conditions are the standard ones of kstatus (docs/decisions/066). They are True or absent.
"""

from dijob.reasons.catalogue import Reason, over, waiting


class Reconciling(Reason):
    """True: the job does not match its spec yet, and the operator is working on it. Flux and
    Helm show such a job as in progress. The message is `status.message`. Absent while the job runs,
    and after it has ended.
    """

    Starting = waiting(
        "the job is not running yet, or all of its ranks are restarting", status=True
    )
    Suspending = waiting("the pods of the suspended job are terminating", status=True)
    Queued = waiting("the job is waiting to be admitted by its queue, see Suspended", status=True)


class Stalled(Reason):
    """True: the job has failed, or the operator cannot continue without you. Flux and Helm show
    such a job as failed. The message is copied from the condition that explains why. Absent
    otherwise. A job whose training makes no progress does not get this condition.
    """

    Failed = over("the job has failed, see Failed", status=True)
    Invalid = waiting(
        "the operator cannot do what the spec asks for, see Invalid",
        "do what the condition Invalid says",
        status=True,
    )
    PodRejected = waiting(
        "the API server rejects the pods of the job as invalid, see PodsCreated",
        "do what the condition PodsCreated says",
        status=True,
    )
