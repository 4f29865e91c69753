"""Renewal in place: a process that dials a lost rank starts again in its own pod, where a new pod
is not more reliable.

The list that is published after a loss carries `renew-from` for the pods of those who dial the lost
rank. The launcher in them ends its program and exits with 85; the kubelet starts the container
again, with the new list in its environment. The pod keeps its node, its devices and its emptyDirs
(docs/decisions/009-renewal-in-place.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dijob.api.status import Charge, Renewal, Status, stamp
from dijob.core.members import Gang
from dijob.core.observed.views import Observed, Pod, since

# The kubelet starts a container again at once when its last end is this long ago, else after 10 s
# and more (1.34, pkg/kubelet: MaxContainerBackOff of 300 s, forgotten after twice that): a new pod
# is there sooner.
CALM_SECONDS = 600.0
# What may pass besides, from the list to the new start, before the pod is made anew after all: also
# for a kubelet that has missed the list and is reminded (requeue.NUDGE_SECONDS).
SLACK_SECONDS = 15.0
# A process that has started after it was told, and that the launcher has left alone for this long,
# has the new list.
SETTLED_SECONDS = 5.0


@dataclass(frozen=True)
class Restarts:
    """The ranks by how far their renewal in place is.

    `possible`: they can be renewed in their pods. `not_yet_told`: their process has the list that
    died. `pending`: they have been told, and have not started again yet. `overdue`: nor have they
    in all the time they had.
    """

    possible: frozenset[int]
    not_yet_told: frozenset[int]
    pending: frozenset[int]
    overdue: frozenset[int]


def restarts_of(
    gang: Gang, observed: Observed, status: Status, renewed: frozenset[int], now: datetime
) -> Restarts:
    """How far each rank is; `renewed` are those of the last renewal, the pods as they are
    believed.
    """
    pods, last = observed.pods, status.last_renewal
    told = frozenset(rank for rank, pod in pods.items() if pending(pod, observed, status, now))
    # A rendezvous must not find a process of the old world that is still ending: pods that are made
    # anew begin only when all of those are gone.
    able = (
        ()
        if gang.runtime.traits.fixed_membership
        else (rank for rank, pod in pods.items() if possible(pod, now))
    )
    return Restarts(
        possible=frozenset(able) - told,
        not_yet_told=not_yet_told(pods, renewed, last) if last else frozenset(),
        pending=told,
        overdue=frozenset(rank for rank in told if left(pods[rank], observed, now) <= 0),
    )


def possible(pod: Pod, now: datetime) -> bool:
    """Whether the pod can stay while its process starts again: nothing is wrong with it, and the
    kubelet would start it without back-off.
    """
    told = pod.copy.address_list.addresses
    sound = pod.containers.sandbox and not (pod.deleting or pod.failed or pod.containers.succeeded)
    calm = not pod.containers.ended or (since(pod.containers.ended, now) or 0.0) > CALM_SECONDS
    return (
        pod.made.restartable
        and sound
        and calm
        and pod.rank < len(told)
        and told[pod.rank] == pod.ip
    )


def pending(pod: Pod, observed: Observed, status: Status, now: datetime) -> bool:
    """Whether the pod's process still runs with the dead list after `renew-from` was written. One
    that has never started (its image is still being pulled) has no list, and one that has done its
    work will never start again.
    """
    if pod.containers.succeeded or not pod.begun:
        return False
    renew_from = pod.copy.renew_from
    if renew_from <= pod.containers.renewed or renew_from <= _known(pod, status):
        return False
    told = observed.told.get((pod.uid, pod.copy.renew_from), now)
    # One that has started since it was told has the new list, or is ended by its launcher within
    # seconds. Stamps have whole seconds: one that started in that very second counts as pending,
    # and its pod is made again if need be.
    return (
        pod.containers.started <= stamp(told)
        or (since(pod.containers.started, now) or 0.0) < SETTLED_SECONDS
    )


def left(pod: Pod, observed: Observed, now: datetime) -> float:
    """Seconds until a pod whose renewal is pending is made again; 0 or less: now. They count from
    when it was told, or from its process's last start where that was later.
    """
    told = observed.told.get((pod.uid, pod.copy.renew_from), now)
    waited = (now - told).total_seconds()
    if pod.containers.started > stamp(told):
        waited = since(pod.containers.started, now) or 0.0
    return pod.made.grace + SLACK_SECONDS - waited


def not_yet_told(pods: Mapping[int, Pod], ranks: frozenset[int], last: Renewal) -> frozenset[int]:
    """The ranks whose process has the list that died, and has not been told yet."""
    had = (pod for rank in ranks if (pod := pods.get(rank)) and pod.has_list)
    return frozenset(pod.rank for pod in had if pod.copy.address_list.number <= last.list_number)


def uncharged_ends(pod: Pod, before: Charge, new: int) -> int:
    """How many of a pod's `new` container ends were renewals, which are not charged: 0 or 1.
    `before` is what has been counted.

    One, if the launcher says so of the main container's last end, and that end has not been
    counted: by its time, since somebody else may have written the number that it names. Only a
    container's last end can be seen, and sometimes not even that: when there are several new ones,
    or one of which nothing is known, one of them was the renewal that it had been told of.
    """
    told = pod.copy.renew_from > before.renewed
    seen = (
        pod.containers.ended != before.renewed_at
        if before.renewed_at
        else pod.containers.renewed > before.renewed
    )
    return (
        1
        if (pod.containers.renewed and seen) or (told and (new > 1 or pod.containers.unrecorded))
        else 0
    )


def _known(pod: Pod, status: Status) -> int:
    """The last renewal of this very pod that has been counted, by the number of its list."""
    return max(
        (charge.renewed for charge in status.restarts_seen if charge.uid == pod.uid), default=0
    )
