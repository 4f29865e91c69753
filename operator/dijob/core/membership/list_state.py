"""The state of the newest address list; it follows from the status alone.

| from         | to       | when                                                               |
|--------------|----------|--------------------------------------------------------------------|
| NONE         | IN_FORCE | enough ranks have addresses (gathering.py): a number is written    |
| IN_FORCE     | IN_FORCE | ranks join or leave, or one restarts that would dial a rank that   |
|              |          | has succeeded: the next number is written                          |
| IN_FORCE     | DEAD     | a rank is lost (losses.py), a failure renews all ranks, or a job   |
|              |          | whose ranks all restart together is scaled: lastRenewal is         |
|              |          | written, with the number                                           |
| DEAD         | DEAD     | one more rank is lost: lastRenewal is written again                |
| DEAD         | IN_FORCE | enough ranks have addresses again (gathering.py): the next number  |
|              |          | is written                                                         |
| each of them | NONE     | the job is suspended: lastRenewal is written, as Suspended         |

Each of these is a write of the status, before anything is done to a pod because of it.
"""

from enum import Enum

from dijob.api.status import Status
from dijob.reasons import AddressesReady

# The reason of the renewal that a suspension is: no pod is left that had the list.
SUSPENDED = AddressesReady.Suspended.name


class ListState(Enum):
    """What the newest list is to the pods."""

    NONE = "no list has been made since the job began, or was resumed"
    IN_FORCE = "the pods have it, or are given it"
    DEAD = "it is not true for some ranks, and these wait for the next one"


def list_state(status: Status) -> ListState:
    """The state that the status says."""
    last = status.last_renewal
    if not status.list_number:
        return ListState.NONE
    if last is None or last.list_number < status.list_number:
        return ListState.IN_FORCE
    return ListState.NONE if last.reason == SUSPENDED else ListState.DEAD
