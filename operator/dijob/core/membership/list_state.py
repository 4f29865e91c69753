"""The state of the newest peer list. It is derived from the job's status alone.

| from     | to       | when                                                                   |
|----------|----------|------------------------------------------------------------------------|
| NONE     | ACTIVE   | enough ranks have addresses (rendezvous.py): a revision is written     |
| ACTIVE   | ACTIVE   | ranks join or leave, or a rank that restarts would connect to a rank   |
|          |          | that has succeeded: the next revision is written                       |
| ACTIVE   | STALE    | a rank is lost (losses.py), a failure restarts all ranks, or a job     |
|          |          | whose ranks all restart together is scaled: lastRenewal is written     |
|          |          | with the revision                                                      |
| STALE    | STALE    | another rank is lost: lastRenewal is written again                     |
| STALE    | ACTIVE   | enough ranks have addresses again (rendezvous.py): the next revision   |
|          |          | is written                                                             |
| any      | NONE     | the job is suspended: lastRenewal is written, with reason Suspended    |

Each transition is a single write of the status, made before any resulting action on a pod.
"""

from enum import Enum

from dijob.api.status import Status
from dijob.reasons import AddressesReady

# The value of lastRenewal.reason after a suspension. All pods that had the list are gone, so the
# list does not count as stale. The job starts as if there had been no list.
SUSPENDED = AddressesReady.Suspended.name


class ListState(Enum):
    """The state of the newest peer list."""

    NONE = "no list has been published since the job started or was resumed"
    ACTIVE = "the pods have the list, or are about to get it"
    STALE = "the list is wrong for some ranks, which wait for the next list"


def list_state(status: Status) -> ListState:
    """Return the state of the newest list according to the status."""
    last = status.last_renewal
    if not status.list_number:
        return ListState.NONE
    if last is None or last.list_number < status.list_number:
        return ListState.ACTIVE
    return ListState.NONE if last.reason == SUSPENDED else ListState.STALE
