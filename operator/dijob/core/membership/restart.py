"""Renewal in place: which ranks that dial a lost rank restart in their own pods, and how far each
is. The world (world.py) has the answer; the failures (failures.py) do not charge these restarts.

A pod whose process has to restart is given the next list with the annotation `renew-from`: that is
the request. Its launcher ends the program and exits with 85; the kubelet starts the container
again, with the new list in its environment. The pod keeps its node, its devices and its emptyDirs
(docs/decisions/009-in-place-restart.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dijob.api.status import Charge, Renewal, Status, timestamp
from dijob.core.members import Gang
from dijob.core.observed.views import Observed, Pod, since
from dijob.pod import RENEWAL_CODE

# The kubelet starts a container again at once when its last end is this long ago, else after 10 s
# and more (1.34, pkg/kubelet: MaxContainerBackOff of 300 s, forgotten after twice that): a new pod
# is there sooner.
CALM_SECONDS = 600.0
# How much longer than its grace period a restart may take before the pod is re-created: also for a
# kubelet that has missed the list and is reminded (requeue.REMIND_SECONDS).
SLACK_SECONDS = 15.0
# A process that has started after the request, and that the launcher has left alone for this long,
# has the new list.
SETTLED_SECONDS = 5.0


@dataclass(frozen=True)
class Restarts:
    """The ranks by how far their renewal in place is.

    `possible`: they can restart in their pods. `unrequested`: their process has the list that died,
    and no restart has been requested. `pending`: it has been requested, and they have not restarted
    yet. `overdue`: those of the pending whose time is over.
    """

    possible: frozenset[int]
    unrequested: frozenset[int]
    pending: frozenset[int]
    overdue: frozenset[int]


def restarts_of(
    gang: Gang, observed: Observed, status: Status, renewed: frozenset[int], now: datetime
) -> Restarts:
    """How far each rank is. `renewed` are the ranks of the last renewal; the pods are verified
    (address_list.py).
    """
    pods, last = observed.pods, status.last_renewal
    requested = frozenset(
        rank for rank, pod in pods.items() if is_pending(pod, observed, status, now)
    )
    # A rendezvous must not find a process of the old world that is still ending: pods that are
    # re-created start only when all of those are gone.
    able = (
        ()
        if gang.runtime.traits.fixed_membership
        else (rank for rank, pod in pods.items() if can_restart(pod, now))
    )
    return Restarts(
        possible=frozenset(able) - requested,
        unrequested=unrequested(pods, renewed, last) if last else frozenset(),
        pending=requested,
        overdue=frozenset(
            rank for rank in requested if seconds_left(pods[rank], observed, now) <= 0
        ),
    )


def can_restart(pod: Pod, now: datetime) -> bool:
    """Whether the pod can stay while its process restarts: nothing is wrong with it, and the
    kubelet would start it without back-off.
    """
    addresses = pod.copy.address_list.addresses
    sound = pod.containers.sandbox and not (pod.deleting or pod.failed or pod.containers.succeeded)
    calm = not pod.containers.ended or (since(pod.containers.ended, now) or 0.0) > CALM_SECONDS
    return (
        pod.made.restartable
        and sound
        and calm
        and pod.rank < len(addresses)
        and addresses[pod.rank] == pod.ip
    )


def is_pending(pod: Pod, observed: Observed, status: Status, now: datetime) -> bool:
    """Whether the pod's process still runs with the dead list although its restart has been
    requested. One that has never started (its image is still being pulled) has no list, and one
    that has succeeded will never restart.
    """
    if pod.containers.succeeded or not pod.has_started:
        return False
    renew_from = pod.copy.renew_from
    if renew_from <= pod.containers.ended_for or renew_from <= _last_counted(pod, status):
        return False
    requested = observed.list_seen.get((pod.uid, pod.copy.renew_from), now)
    # One that has started since the request has the new list, or is ended by its launcher within
    # seconds. Stamps have whole seconds: one that started in that very second counts as pending,
    # and its pod is re-created if need be.
    return (
        pod.containers.started <= timestamp(requested)
        or (since(pod.containers.started, now) or 0.0) < SETTLED_SECONDS
    )


def seconds_left(pod: Pod, observed: Observed, now: datetime) -> float:
    """Seconds until a pod whose restart is pending is re-created; 0 or less: now. They count from
    the request, or from its process's last start where that was later.
    """
    requested = observed.list_seen.get((pod.uid, pod.copy.renew_from), now)
    waited = (now - requested).total_seconds()
    if pod.containers.started > timestamp(requested):
        waited = since(pod.containers.started, now) or 0.0
    return pod.made.grace + SLACK_SECONDS - waited


def unrequested(pods: Mapping[int, Pod], ranks: frozenset[int], last: Renewal) -> frozenset[int]:
    """Those of the renewed `ranks` whose process has the list that died (`last`), and of which no
    restart has been requested.
    """
    had = (pod for rank in ranks if (pod := pods.get(rank)) and pod.has_list)
    return frozenset(pod.rank for pod in had if pod.copy.address_list.number <= last.list_number)


def uncharged_ends(pod: Pod, before: Charge, new: int) -> int:
    """Return how many of a pod's `new` container ends were restarts that the operator had
    requested, which are not charged: 0 or 1. `before` is what has been counted.

    Each request excuses one end. A message of the launcher alone excuses none: a program can write
    the same words. Only a container's last end can be seen, and sometimes not even that: when there
    are several new ends, or one of which nothing is known, one of them is taken for the requested
    restart. So is an end with the launcher's exit code and without its message, for which a full
    disk has no room.
    """
    if pod.copy.renew_from <= before.renewed:
        return 0
    seen = pod.containers.ended_for > before.renewed
    return int(seen or new > 1 or pod.containers.unrecorded or _ended_without_a_word(pod))


def answered_request(pod: Pod, before: Charge) -> int:
    """Return the number of the list of the request that an uncharged end has answered.

    That is not always the newest request. If another rank is lost after the launcher has read a
    request and before its end is observed, the pod gets the next request in between. The program
    may have started with the list of the first one, and then ends for the second one as well.
    """
    ended_for, renew_from = pod.containers.ended_for, pod.copy.renew_from
    return min(ended_for, renew_from) if ended_for > before.renewed else renew_from


def _ended_without_a_word(pod: Pod) -> bool:
    """Whether the main container ended last as its launcher ends it, and does not say for which
    list.
    """
    end = pod.containers.last_end
    return end is not None and end.exit_code == RENEWAL_CODE and not pod.containers.ended_for


def _last_counted(pod: Pod, status: Status) -> int:
    """The number of the list of this very pod's last restart that has been counted; 0: none."""
    return max(
        (charge.renewed for charge in status.restarts_seen if charge.uid == pod.uid), default=0
    )
