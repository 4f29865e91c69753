"""Reports that the API server rejects changes to existing objects."""

from dijob.core.actions import Action
from dijob.core.decide import changes
from dijob.core.decide.context import Context
from dijob.core.facts import Fact, is_true
from dijob.core.observed.views import ApiRejection, RejectionCause
from dijob.reasons import ChangesRefused

# The reason and the wording of the condition, by kind of change (Action.changes).
REASONS = {
    "patch pod": ChangesRefused.PodUpdateRefused,
    "delete pod": ChangesRefused.PodDeletionRefused,
    "patch dijob": ChangesRefused.JobUpdateRefused,
    "patch networkpolicy": ChangesRefused.PolicyUpdateRefused,
    "patch podgroup": ChangesRefused.GroupUpdateRefused,
    "delete podgroup": ChangesRefused.GroupDeletionRefused,
    "patch workload": ChangesRefused.GroupUpdateRefused,
    "delete workload": ChangesRefused.GroupDeletionRefused,
    "patch poddisruptionbudget": ChangesRefused.BudgetUpdateRefused,
    "delete poddisruptionbudget": ChangesRefused.BudgetDeletionRefused,
    "delete dijob": ChangesRefused.JobDeletionRefused,
}
CANNOT = {
    "patch pod": "cannot be changed",
    "delete pod": "cannot be deleted",
    "patch dijob": "spec.replicas cannot be written",
    "patch networkpolicy": "cannot be changed",
    "patch podgroup": "cannot be changed",
    "delete podgroup": "cannot be deleted",
    "patch workload": "cannot be changed",
    "delete workload": "cannot be deleted",
    "patch poddisruptionbudget": "cannot be changed",
    "delete poddisruptionbudget": "cannot be deleted",
    "delete dijob": "the job cannot be deleted",
}


def rejection_facts(ctx: Context, actions: tuple[Action, ...] | None) -> list[Fact]:
    """Return the condition about rejected changes, or [] if there is nothing to report.

    `actions` is None if this reconciliation only writes the status. In that case, and also while a
    failure has not been stored yet, the actions are unknown. So the condition is not set to False.
    """
    refused = [
        (each, rejection)
        for each in actions or ()
        if (rejection := ctx.observed.rejections.get(changes.rejection_key(each)))
        and _is_news(rejection)
    ]
    if refused:
        action, rejection = refused[0]
        what = changes.kind_of(changes.rejection_key(action))
        reason = (
            ChangesRefused.ApiUnavailable
            if rejection.why is RejectionCause.UNAVAILABLE
            else REASONS[what]
        )
        return [Fact(reason, _describe_rejection(action, rejection, len(refused) - 1))]
    if stale := ctx.observed.rejections.get(changes.STATUS):
        return [Fact(ChangesRefused.CrdOutdated, stale.message)]
    if actions is None or ctx.has_unstored_counts or not is_true(ctx.job.status, ChangesRefused):
        return []
    return [Fact(ChangesRefused.Accepted)]


def _is_news(rejection: ApiRejection) -> bool:
    """Whether a rejection is reported. A single call without a response is not reported, because
    the next attempt usually succeeds.
    """
    return rejection.why is not RejectionCause.UNAVAILABLE or rejection.attempts > 1


def _describe_rejection(action: Action, rejection: ApiRejection, others: int) -> str:
    what, _, one = changes.rejection_key(action).partition("/")
    kind = what.partition(" ")[2]
    about = f"{kind} {one.partition(' ')[0]} {CANNOT[what]}" if one else CANNOT[what]
    return f"{about}: {rejection.message}" + (f" (and {others} more)" if others else "")
