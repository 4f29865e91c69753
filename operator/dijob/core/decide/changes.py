"""Handles rejected changes to existing objects: which of the changes must wait, and which is
retried first.

The rejection of a creation is stored under the kind and name of the object. The rejection of a
change is stored under the kind of the change and the object's uid. So a pod whose patch was
rejected can still be deleted. The pod that replaces it has a new uid, so changes to the new pod are
not delayed by this rejection.
"""

from collections.abc import Iterable, Mapping

from dijob.core.actions import (
    Action,
    ChangeBudget,
    ChangePolicy,
    ChangeScheduling,
    DeleteBudget,
    DeleteScheduling,
    DeleteWorkload,
    PodAction,
    ReportWorkload,
)
from dijob.core.decide.context import Context
from dijob.core.observed.views import ApiRejection

Rejections = Mapping[str, ApiRejection]

# The key for a status that the API server has not stored as written, because the installed CRD is
# too old.
STATUS = "patch dijob/status"
# The actions that change or delete one of a job's objects.
OF_OBJECT = (
    PodAction
    | ChangePolicy
    | ChangeScheduling
    | DeleteScheduling
    | ChangeBudget
    | DeleteBudget
    | ReportWorkload
    | DeleteWorkload
)


def rejection_key(action: Action) -> str:
    """Return the key under which a rejection of this change is stored; "" for a creation."""
    return (
        f"{action.changes}/{action.name} {action.uid}"
        if isinstance(action, OF_OBJECT)
        else action.changes
    )


def pod_uid(remembered: str) -> str:
    """Return the uid of the pod in the key of a rejected change; "" if the change does not concern
    a pod.
    """
    return remembered.partition(" pod/")[2].partition(" ")[2]


def due_actions(ctx: Context, actions: Iterable[Action]) -> tuple[Action, ...]:
    """Return the actions whose back-off is over."""
    return tuple(action for action in actions if _seconds_until_due(ctx, action) <= 0)


def seconds_until_next(ctx: Context, actions: Iterable[Action]) -> float | None:
    """Return the seconds until the next rejected action may be retried; None if none is waiting."""
    return min(
        (left for action in actions if (left := _seconds_until_due(ctx, action)) > 0), default=None
    )


def split_retries(
    actions: Iterable[Action], rejections: Rejections
) -> tuple[tuple[Action, ...], tuple[tuple[Action, ...], ...]]:
    """Split actions into new ones and retries; retries are grouped by kind of change.

    A policy that rejects one change usually rejects all changes of its kind, so the first retry of
    a group is sent before the others. The change with the fewest attempts comes first. So each
    change gets its turn. If the reason for a rejection applies only to one change, that change does
    not block the others.
    """
    plain, retries = list[Action](), dict[str, list[Action]]()
    for action in actions:
        if rejection_key(action) in rejections:
            retries.setdefault(kind_of(rejection_key(action)), []).append(action)
        else:
            plain.append(action)
    ordered = (
        sorted(group, key=lambda action: rejections[rejection_key(action)].attempts)
        for group in retries.values()
    )
    return tuple(plain), tuple(map(tuple, ordered))


def _seconds_until_due(ctx: Context, action: Action) -> float:
    rejection = ctx.observed.rejections.get(rejection_key(action))
    return (rejection.retry_at - ctx.now).total_seconds() if rejection else 0.0


def kind_of(remembered: str) -> str:
    """Return the kind of change, such as "patch pod", from the key of a rejected change."""
    return remembered.partition("/")[0]
