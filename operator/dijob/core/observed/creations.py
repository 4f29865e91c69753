"""The pause before a pod is created again that was lost soon after its creation."""

from datetime import datetime, timedelta

from dijob.api.status import timestamp
from dijob.core.backoff import doubled
from dijob.core.observed.views import Creation

# Between two creations of one pod: 1, 2, 4 ... seconds.
BACKOFF_SECONDS = (1.0, 60.0)
# A pod that has lasted so long was no short-lived one: its creations are counted from 1 again.
FORGIVE_SECONDS = 600.0
# A shorter pause is over before a condition could be read.
WORTH_SAYING_SECONDS = 4.0


def counted(before: Creation | None, now: datetime) -> Creation:
    """One more creation of a pod of the same name."""
    if before is None:
        return Creation(1, now)
    count = 1 if _is_old(before, now) else before.count + 1
    return Creation(count, now, before.rejected)


def wait(creation: Creation | None, now: datetime) -> float:
    """Seconds until a pod that is missing may be created again; 0 or less: now."""
    return (_due(creation) - now).total_seconds() if creation and not _is_old(creation, now) else 0


def paused_until(creation: Creation | None, now: datetime) -> datetime | None:
    """When a pod is created again whose pause is long enough to be reported; else None."""
    if creation is None or wait(creation, now) <= 0:
        return None
    due = _due(creation)
    return due if due - creation.at >= timedelta(seconds=WORTH_SAYING_SECONDS) else None


def lost_until(due: datetime) -> str:
    """What is reported of a pod that is created again then, after its name."""
    return f"was lost several times in a row, and will be re-created at {timestamp(due)}"


def _due(creation: Creation) -> datetime:
    return creation.at + timedelta(seconds=doubled(creation.count, BACKOFF_SECONDS))


def _is_old(creation: Creation, now: datetime) -> bool:
    return now - creation.at > timedelta(seconds=FORGIVE_SECONDS)
