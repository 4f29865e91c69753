"""Handles changes of existing objects that the API server rejects: which of them must wait, which
is retried first, and the condition that reports them.

The rejection of a creation is stored under the kind and name of the object. The rejection of a
change is stored under the kind of the change and the object's uid, so a pod that may not be patched
can still be deleted, and the pod that replaces it starts without a back-off.
"""

from collections.abc import Iterable, Mapping

from dijob.core.actions import Action, ChangePolicy, PodAction
from dijob.core.membership.context import Pass
from dijob.core.observed.views import Refusal, Refused
from dijob.core.report.summary import Fact, is_true
from dijob.reasons import ChangesRefused

Refusals = Mapping[str, Refusal]

# The reason and the wording of the condition, by kind of change (Action.changes).
REASONS = {
    "patch pod": ChangesRefused.PodUpdateRefused,
    "delete pod": ChangesRefused.PodDeletionRefused,
    "patch dijob": ChangesRefused.JobUpdateRefused,
    "patch networkpolicy": ChangesRefused.PolicyUpdateRefused,
    "delete dijob": ChangesRefused.JobDeletionRefused,
}
CANNOT = {
    "patch pod": "cannot be changed",
    "delete pod": "cannot be deleted",
    "patch dijob": "spec.replicas cannot be written",
    "patch networkpolicy": "cannot be changed",
    "delete dijob": "the job cannot be deleted",
}


# The key of a status that the API server has not stored as written, because its CRD is too old.
STATUS = "patch dijob/status"


def key(action: Action) -> str:
    """Return the key under which a rejection of this change is stored; "" for a creation."""
    return (
        f"{action.changes}/{action.name} {action.uid}"
        if isinstance(action, PodAction | ChangePolicy)
        else action.changes
    )


def pod_uid(remembered: str) -> str:
    """Return the uid of the pod in the key of a rejected change; "" if it is about another kind."""
    return remembered.partition(" pod/")[2].partition(" ")[2]


def due(ctx: Pass, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions whose back-off is over."""
    return tuple(action for action in actions if _left(ctx, action) <= 0)


def seconds_until_next(ctx: Pass, actions: Iterable[Action]) -> float | None:
    """Return the seconds until the next rejected action may be retried; None if none waits."""
    return min((left for action in actions if (left := _left(ctx, action)) > 0), default=None)


def facts(ctx: Pass, actions: tuple[Action, ...] | None) -> list[Fact]:
    """Return the condition about rejected changes, [] if there is nothing to report.

    `actions` is None if this reconciliation only writes the status. Then, and while a failure is
    not stored yet, the actions are not known, so the condition is not set to False.
    """
    refused = [
        (each, refusal)
        for each in actions or ()
        if (refusal := ctx.observed.refusals.get(key(each))) and _is_news(refusal)
    ]
    if refused:
        action, refusal = refused[0]
        what = _what(key(action))
        reason = (
            ChangesRefused.ApiUnavailable if refusal.why is Refused.UNAVAILABLE else REASONS[what]
        )
        return [Fact(reason, _sentence(action, refusal, len(refused) - 1))]
    if stale := ctx.observed.refusals.get(STATUS):
        return [Fact(ChangesRefused.CrdOutdated, stale.message)]
    if actions is None or ctx.has_unstored_counts or not is_true(ctx.job.status, ChangesRefused):
        return []
    return [Fact(ChangesRefused.Accepted)]


def turns(
    actions: Iterable[Action], refusals: Refusals
) -> tuple[tuple[Action, ...], tuple[tuple[Action, ...], ...]]:
    """Split actions into new ones and retries; retries are grouped by kind of change.

    What rejects one change usually rejects all changes of its kind, so the first retry of a group
    is tried for all of them. The one with the fewest attempts comes first: each gets its turn, and
    a change that is rejected for a reason of its own does not block the others.
    """
    plain, retries = list[Action](), dict[str, list[Action]]()
    for action in actions:
        if key(action) in refusals:
            retries.setdefault(_what(key(action)), []).append(action)
        else:
            plain.append(action)
    ordered = (
        sorted(group, key=lambda action: refusals[key(action)].attempts)
        for group in retries.values()
    )
    return tuple(plain), tuple(map(tuple, ordered))


def _left(ctx: Pass, action: Action) -> float:
    refusal = ctx.observed.refusals.get(key(action))
    return (refusal.retry_at - ctx.now).total_seconds() if refusal else 0.0


def _is_news(refusal: Refusal) -> bool:
    """Whether a rejection is reported. A single call without a response is not: it usually succeeds
    the next time.
    """
    return refusal.why is not Refused.UNAVAILABLE or refusal.attempts > 1


def _what(remembered: str) -> str:
    return remembered.partition("/")[0]


def _sentence(action: Action, refusal: Refusal, others: int) -> str:
    what, _, one = key(action).partition("/")
    kind = what.partition(" ")[2]
    about = f"{kind} {one.partition(' ')[0]} {CANNOT[what]}" if one else CANNOT[what]
    return f"{about}: {refusal.message}" + (f" (and {others} more)" if others else "")
