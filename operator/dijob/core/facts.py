"""Facts from which conditions are built, and queries on the stored conditions.

Decisions read stored conditions, and reports write new ones, so both need this module.
"""

from dataclasses import dataclass
from datetime import datetime

from dijob.api.status import Condition, Status, parse_time
from dijob.reasons import PeersReady, Reason, Running

# PeersReady=False becomes a problem, with a Warning event, after this time. With a shorter time,
# each in-place restart would cause a warning. In such a restart, the rank stops being Ready before
# its container ends, because its program closes its port. Then it takes a while to become Ready
# again.
NOT_READY_SECONDS = 60.0


@dataclass(frozen=True)
class Fact:
    """One condition of the job, as of this reconciliation."""

    reason: Reason
    message: str = ""


def find_condition(status: Status, condition: type[Reason]) -> Condition | None:
    """Return the stored condition of this type, or None."""
    return next((c for c in status.conditions if c.type == condition.__name__), None)


def is_true(status: Status, condition: type[Reason]) -> bool:
    """Whether this condition is True in the status."""
    found = find_condition(status, condition)
    return found is not None and found.status == "True"


def job_age(status: Status, now: datetime) -> float:
    """Return the seconds since the operator first saw the job; 0 if the status does not say."""
    start = parse_time(status.start_time)
    return (now - start).total_seconds() if start else 0.0


def seconds_until_problem(status: Status, now: datetime) -> float | None:
    """Return the seconds until the unready ranks of a running job count as a problem
    (NOT_READY_SECONDS); None while all ranks are Ready.
    """
    peers = find_condition(status, PeersReady)
    if peers is None or peers.status == "True" or not is_true(status, Running):
        return None
    since = parse_time(peers.last_transition_time)
    return NOT_READY_SECONDS - (now - since).total_seconds() if since else 0.0
