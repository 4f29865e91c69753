"""Derives the conditions that GitOps tools read (kstatus: Reconciling and Stalled) from the others.

From these two conditions, the tools compute a single health status: Stalled means failed,
Reconciling means in progress, and a job with neither of them is healthy (docs/decisions/066).
"""

from dijob import reasons
from dijob.api.status import Condition, Status
from dijob.core.facts import Fact, find_condition, is_true
from dijob.reasons import Reconciling, Stalled


def health_fact(status: Status) -> tuple[Fact, Condition | None] | None:
    """Return the health of a job with this status; None if it is healthy, or is being deleted.

    The result is a pair: the health, and the condition because of which the job is Stalled. If the
    job is Reconciling, the second element of the pair is None.
    """
    # At most one of the two conditions exists, because kstatus takes the first that it finds.
    if cause := _stalling_condition(status):
        reason, condition = cause
        return Fact(reason, condition.message), condition
    waiting = _waiting_reason(status)
    # The message changes only together with status.message, so it causes no additional write.
    return (Fact(waiting, status.message), None) if waiting else None


def _stalling_condition(status: Status) -> tuple[Stalled, Condition] | None:
    """Return why the job cannot continue until its user changes something."""
    created = find_condition(status, reasons.PodsCreated)
    if is_true(status, reasons.Failed):
        cause, reason = find_condition(status, reasons.Failed), Stalled.Failed
    elif is_true(status, reasons.Invalid):
        cause, reason = find_condition(status, reasons.Invalid), Stalled.Invalid
    elif created and created.reason == reasons.PodsCreated.PodRejected.name:
        cause, reason = created, Stalled.PodRejected
    else:
        return None
    return (reason, cause) if cause and not is_true(status, reasons.Succeeded) else None


def _waiting_reason(status: Status) -> Reconciling | None:
    """Return why the job does not match its spec yet."""
    if any(is_true(status, each) for each in (reasons.Succeeded, reasons.Terminating)):
        return None
    suspended = find_condition(status, reasons.Suspended)
    if suspended and suspended.status == "True":
        return _OF_SUSPENDED.get(suspended.reason)
    return None if is_true(status, reasons.Running) else Reconciling.Starting


# A job that has been suspended on purpose matches its spec.
_OF_SUSPENDED = {
    reasons.Suspended.Suspending.name: Reconciling.Suspending,
    reasons.Suspended.Queued.name: Reconciling.Queued,
}
