"""Changes of what is there that the apiserver refuses: which of them wait, what is said, and which
asks first.

A creation that is refused is remembered by the kind and name of its object; a change is remembered
by what it does to which object, so that a pod that may not be patched can still be deleted, and its
successor begins anew.
"""

from collections.abc import Iterable, Mapping

from dijob.core.actions import Action, ChangePolicy, PodAction
from dijob.core.membership.context import Pass
from dijob.core.observed.views import Refusal, Refused
from dijob.core.report.summary import Fact, is_true
from dijob.reasons import ChangesRefused

Refusals = Mapping[str, Refusal]

# By what is done to what: the reason of the condition, and what cannot be done.
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


# What is remembered of a status that the API server has not kept as it was written.
STATUS = "patch dijob/status"


def key(action: Action) -> str:
    """What a refusal of this change is remembered by; "" for a creation."""
    return (
        f"{action.changes}/{action.name} {action.uid}"
        if isinstance(action, PodAction | ChangePolicy)
        else action.changes
    )


def pod_uid(remembered: str) -> str:
    """The uid of the pod that a refused change was about; "" where it was about none."""
    return remembered.partition(" pod/")[2].partition(" ")[2]


def due(ctx: Pass, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Those that may be asked for now."""
    return tuple(action for action in actions if _left(ctx, action) <= 0)


def seconds_until_next(ctx: Pass, actions: Iterable[Action]) -> float | None:
    """Seconds until the next one that was refused may be asked for again; None where none waits."""
    return min((left for action in actions if (left := _left(ctx, action)) > 0), default=None)


def facts(ctx: Pass, actions: tuple[Action, ...] | None) -> list[Fact]:
    """Whether the apiserver refuses what is to be done. `actions` is None where the pass only
    writes the status: then, and while a failure is not stored yet, nothing is said.
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
    """Those that have not been refused; and for each kind of change those that have been, in the
    order in which they ask: the first for all of them, and each in its turn.
    """
    plain, again = list[Action](), dict[str, list[Action]]()
    for action in actions:
        if key(action) in refusals:
            again.setdefault(_what(key(action)), []).append(action)
        else:
            plain.append(action)
    ordered = (
        sorted(group, key=lambda action: refusals[key(action)].attempts) for group in again.values()
    )
    return tuple(plain), tuple(map(tuple, ordered))


def _left(ctx: Pass, action: Action) -> float:
    refusal = ctx.observed.refusals.get(key(action))
    return (refusal.retry_at - ctx.now).total_seconds() if refusal else 0.0


def _is_news(refusal: Refusal) -> bool:
    """One call without an answer is none; the second in a row is."""
    return refusal.why is not Refused.UNAVAILABLE or refusal.attempts > 1


def _what(remembered: str) -> str:
    return remembered.partition("/")[0]


def _sentence(action: Action, refusal: Refusal, others: int) -> str:
    what, _, one = key(action).partition("/")
    kind = what.partition(" ")[2]
    about = f"{kind} {one.partition(' ')[0]} {CANNOT[what]}" if one else CANNOT[what]
    return f"{about}: {refusal.message}" + (f" (and {others} more)" if others else "")
