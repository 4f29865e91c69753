"""The back-off before the operator re-creates a pod that was lost soon after its creation.

Without the back-off, a pod that is deleted whenever it appears, or that its node rejects, would be
re-created several times per second.
"""

from datetime import datetime, timedelta

from dijob.api.status import format_time
from dijob.core.backoff import doubled_wait
from dijob.core.observed.views import Creation

# The wait between two creations of one pod: 1, 2, 4 ... seconds.
BACKOFF_SECONDS = (1.0, 60.0)
# If the last creation of a pod was longer ago than this, the next creation counts as the first.
FORGIVE_SECONDS = 600.0
# A shorter back-off is not reported, because it is over before anyone could read the condition.
WORTH_SAYING_SECONDS = 4.0


def counted(before: Creation | None, now: datetime) -> Creation:
    """Return the creation record of a pod name, updated with one more creation."""
    if before is None:
        return Creation(1, now)
    count = 1 if _is_old(before, now) else before.count + 1
    return Creation(count, now, before.rejected)


def seconds_until_creation(creation: Creation | None, now: datetime) -> float:
    """Return the seconds until a missing pod may be re-created; 0 or less: now."""
    return (
        (_creation_due(creation) - now).total_seconds()
        if creation and not _is_old(creation, now)
        else 0
    )


def paused_until(creation: Creation | None, now: datetime) -> datetime | None:
    """Return the time at which a pod will be re-created; None if it has no back-off that is long
    enough to be reported.
    """
    if creation is None or seconds_until_creation(creation, now) <= 0:
        return None
    due = _creation_due(creation)
    return due if due - creation.at >= timedelta(seconds=WORTH_SAYING_SECONDS) else None


def lost_until(due: datetime) -> str:
    """Return the message about a pod in back-off; the caller puts the pod's name in front of it."""
    return f"was lost several times in a row, and will be re-created at {format_time(due)}"


def _creation_due(creation: Creation) -> datetime:
    return creation.at + timedelta(seconds=doubled_wait(creation.count, BACKOFF_SECONDS))


def _is_old(creation: Creation, now: datetime) -> bool:
    return now - creation.at > timedelta(seconds=FORGIVE_SECONDS)
